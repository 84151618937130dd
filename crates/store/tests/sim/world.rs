//! The world of a simulation: a store that several servers share, what should be in it, and what may happen.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{TryStreamExt as _, stream};
use object_store::memory::InMemory;
use sha2::Digest as _;
use store::clock::ManualClock;
use store::content::{Progress, QuotaOf};
use store::hub::refs::{HEADS, MAIN};
use store::hub::{Operation, Page, RepoQuery, RepoRow, Request};
use store::ids::Oid;
use store::names::{Kind, RepoName};
use store::objects::Folder;
use store::upkeep::{CompactOptions, CompactProgress, GcOptions, GcProgress, VerifyOptions, VerifyProgress};
use store::{Catalog, DedupOptions, ErrorKind, Grant, ObjectKey, Objects, Options, Store, testing};
use testkit::corpus::{self, SplitMix64};
use testkit::faulty::{Dates, Faults, FaultyObjects, faulty_catalog};
use testkit::upload::Upload;
use xet::compress::{Policy, Scheme};
use xet::{FileHash, Sha256};

use super::interleave::{self, Job, Outcome};

pub(crate) struct World {
    /// What happened, for the report of a failure.
    pub(crate) story: Vec<String>,
    random: SplitMix64,
    clock: Arc<ManualClock>,
    catalog: Arc<Catalog>,
    memory: Arc<InMemory>,
    dates: Dates,
    /// Does what is done alone, and looks.
    main: Actor,
    /// What refs should hold: by repository and ref, digests by path.
    refs: BTreeMap<(String, String), BTreeMap<String, Sha256>>,
    uploads: Vec<Arc<Upload>>,
    /// Files registered for a repository, and when.
    registered: Vec<(String, Sha256, u64)>,
    _folder: tempfile::TempDir,
}

/// A server: its own memory over the shared store.
#[derive(Clone)]
struct Actor {
    store: Store,
    faults: Faults,
}

const GRACE_S: u64 = 7200;
const REPOS: [&str; 2] = ["one", "two"];

/// One operation of an actor.
#[derive(Debug, Clone)]
enum Step {
    CreateRepo(String),
    DeleteRepo(String),
    /// Xorbs are sent, or believed to be there.
    Push {
        repo: String,
        upload: usize,
        xorbs: bool,
    },
    Commit {
        repo: String,
        branch: String,
        path: String,
        sha256: Sha256,
    },
    DeletePath {
        repo: String,
        branch: String,
        path: String,
    },
    Branch {
        repo: String,
        from: String,
    },
    DeleteBranch {
        repo: String,
    },
    Squash {
        repo: String,
        branch: String,
    },
    Gc,
    Compact,
    Pull {
        repo: String,
        branch: String,
        path: String,
    },
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        // Nothing here need survive the machine.
        let shared = std::path::Path::new("/dev/shm");
        let folder = match shared.is_dir() {
            true => tempfile::tempdir_in(shared).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let catalog = Arc::new(Catalog::open_file(&folder.path().join("catalog.db")).await.unwrap());
        let clock = Arc::new(ManualClock::at(1_800_000_000));
        let (memory, dates) = (Arc::new(InMemory::new()), Dates::new(clock.clone()));
        let main = actor(&catalog, &memory, &dates, &clock);
        Self {
            story: Vec::new(),
            random: SplitMix64::new(seed),
            clock,
            catalog,
            memory,
            dates,
            main,
            refs: BTreeMap::new(),
            uploads: Vec::new(),
            registered: Vec::new(),
            _folder: folder,
        }
    }

    /// One thing alone, or several at once; then everything acknowledged is read.
    pub(crate) async fn step(&mut self) {
        match self.random.below(10) {
            0 => {
                let seconds = [30, 1800, GRACE_S + 10, 5 * GRACE_S][self.random.below(4) as usize];
                self.story.push(format!("the clock moves {seconds} s"));
                self.clock.advance(seconds);
            }
            1..=6 => {
                let step = self.next_step();
                self.alone(step).await;
            }
            _ => self.together().await,
        }
    }

    async fn alone(&mut self, step: Step) {
        let actor = self.main.clone();
        match self.random.below(6) {
            0 => actor.faults.fail_before(1 + self.random.below(12)),
            1 => actor.faults.fail_after(1 + self.random.below(12)),
            _ => actor.faults.disarm(),
        }
        let done = perform(&actor.store, &step, self.upload_of(&step)).await;
        actor.faults.disarm();
        self.story.push(format!("{step:?}: {done:?}"));
        let outcome = Some(done);
        self.expect_cause(&step, &outcome);
        self.record_outcome(&step, &outcome).await;
        self.check(matches!(step, Step::Gc | Step::Compact)).await;
    }

    /// A push, a commit or a read, beside one or two sweeps. What one does takes nothing from the others.
    async fn together(&mut self) {
        let mut steps = vec![Step::Gc];
        if self.random.below(3) == 0 {
            steps.push(Step::Gc);
        }
        if self.random.below(4) == 0 {
            steps.push(Step::Compact);
        }
        for _ in 0..=self.random.below(2) {
            let others = [self.push_step(), self.commit_step(), self.pull_step()];
            let other = others[self.random.below(3) as usize].clone();
            steps.extend(other.filter(|step| !steps.iter().any(|known| clash(known, step))));
        }
        let mut jobs = Vec::new();
        for step in &steps {
            let actor = actor(&self.catalog, &self.memory, &self.dates, &self.clock);
            if self.random.below(5) == 0 {
                match self.random.below(2) {
                    0 => actor.faults.fail_before(1 + self.random.below(30)),
                    _ => actor.faults.fail_after(1 + self.random.below(30)),
                }
            }
            let killed_after = (self.random.below(6) == 0).then(|| self.random.below(30));
            actor.faults.step();
            let (name, upload) = (format!("{step:?}"), self.upload_of(step));
            let (step, store) = (step.clone(), actor.store.clone());
            let task = tokio::spawn(async move { perform(&store, &step, upload).await });
            jobs.push(Job { name, faults: actor.faults, task, killed_after });
        }
        let outcomes = interleave::run(&mut self.random, &self.clock, jobs).await;
        for (step, outcome) in steps.iter().zip(&outcomes) {
            self.story.push(format!("together: {step:?}: {outcome:?}"));
        }
        // What was known when they began decides what was fair.
        steps.iter().zip(&outcomes).for_each(|(step, outcome)| self.expect_cause(step, outcome));
        for (step, outcome) in steps.iter().zip(&outcomes) {
            self.record_outcome(step, outcome).await;
        }
        self.check(true).await;
    }

    fn upload_of(&self, step: &Step) -> Option<Arc<Upload>> {
        match step {
            Step::Push { upload, .. } => self.uploads.get(*upload).cloned(),
            _ => None,
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        let at = self.random.below(from.len() as u64) as usize;
        from.get(at).cloned()
    }

    fn next_step(&mut self) -> Step {
        let name = self.pick(&REPOS).unwrap().to_owned();
        let is_there = self.refs.keys().any(|(repo, _)| *repo == name);
        if !is_there {
            return Step::CreateRepo(name);
        }
        let branches: Vec<_> =
            self.refs.keys().filter(|(repo, _)| *repo == name).map(|(_, branch)| branch.clone()).collect();
        let branch = self.pick(&branches).unwrap();
        let step = match self.random.below(17) {
            0..=3 => self.push_step(),
            4..=7 => self.commit_step(),
            8 => self.pull_step(),
            9 => {
                let paths: Vec<_> = self.refs[&(name.clone(), branch.clone())].keys().cloned().collect();
                self.pick(&paths).map(|path| Step::DeletePath {
                    repo: name.clone(),
                    branch: branch.clone(),
                    path,
                })
            }
            10 => (branches.len() < 2).then(|| Step::Branch { repo: name.clone(), from: branch.clone() }),
            11 => (branches.len() > 1).then(|| Step::DeleteBranch { repo: name.clone() }),
            12 => Some(Step::Squash { repo: name.clone(), branch: branch.clone() }),
            14 => Some(Step::Compact),
            13 => (self.random.below(3) == 0).then(|| Step::DeleteRepo(name.clone())),
            _ => Some(Step::Gc),
        };
        step.unwrap_or(Step::Gc)
    }

    fn push_step(&mut self) -> Option<Step> {
        let repo = self.pick(&REPOS).unwrap().to_owned();
        let again = !self.uploads.is_empty() && self.random.below(2) == 0;
        let upload = match again {
            true => self.random.below(self.uploads.len() as u64) as usize,
            false => {
                let mut file = || {
                    let blocks =
                        (0..=self.random.below(2)).map(|_| corpus::text(self.random.below(8), 12_000));
                    blocks.collect::<Vec<_>>().concat()
                };
                let files = [file(), file()];
                let policy = match self.random.below(2) {
                    0 => Policy::Auto,
                    _ => Policy::Always(Scheme::Raw),
                };
                let chunks = 1 + self.random.below(3) as usize;
                self.uploads.push(Arc::new(Upload::of(&[&files[0], &files[1]], chunks, policy)));
                self.uploads.len() - 1
            }
        };
        Some(Step::Push { repo, upload, xorbs: !again || self.random.below(3) > 0 })
    }

    fn commit_step(&mut self) -> Option<Step> {
        let registered = self.registered.clone();
        let (repo, sha256, _) = self.pick(&registered)?;
        let branches: Vec<_> =
            self.refs.keys().filter(|(of, _)| *of == repo).map(|(_, b)| b.clone()).collect();
        let branch = self.pick(&branches)?;
        Some(Step::Commit { repo, branch, path: format!("f{}", self.random.below(5)), sha256 })
    }

    fn pull_step(&mut self) -> Option<Step> {
        let all: Vec<_> = self
            .refs
            .iter()
            .flat_map(|((repo, branch), paths)| paths.keys().map(move |path| (repo, branch, path)))
            .map(|(repo, branch, path)| (repo.clone(), branch.clone(), path.clone()))
            .collect();
        let (repo, branch, path) = self.pick(&all)?;
        Some(Step::Pull { repo, branch, path })
    }

    /// Updates the expected state after a step: by its effect if acknowledged, otherwise from the store.
    async fn record_outcome(&mut self, step: &Step, outcome: &Outcome) {
        let now_s = store::Clock::now_s(&*self.clock);
        if !matches!(outcome, Some(Ok(()))) {
            return self.read_again().await;
        }
        match step.clone() {
            Step::CreateRepo(repo) => {
                self.refs.insert((repo, MAIN.to_owned()), BTreeMap::new());
            }
            Step::DeleteRepo(name) => {
                self.refs.retain(|(repo, _), _| *repo != name);
                self.registered.retain(|(repo, ..)| *repo != name);
            }
            Step::Push { repo, upload, .. } => {
                // A repository that is deleted takes its files along; one without a row keeps what was registered.
                for file in &self.uploads[upload].files {
                    let sha256 = file.sha256.unwrap();
                    self.registered.retain(|(of, known, _)| *of != repo || *known != sha256);
                    self.registered.push((repo.clone(), sha256, now_s));
                }
            }
            Step::Commit { repo, branch, path, sha256 } => {
                self.refs.get_mut(&(repo, branch)).unwrap().insert(path, sha256);
            }
            Step::DeletePath { repo, branch, path } => {
                self.refs.get_mut(&(repo, branch)).unwrap().remove(&path);
            }
            Step::Branch { repo, from } => {
                let paths = self.refs[&(repo.clone(), from)].clone();
                self.refs.insert((repo, side()), paths);
            }
            Step::DeleteBranch { repo } => {
                self.refs.remove(&(repo, side()));
            }
            Step::Squash { .. } | Step::Gc | Step::Compact | Step::Pull { .. } => {}
        }
    }

    /// What may be refused, and what may not.
    fn expect_cause(&self, step: &Step, outcome: &Outcome) {
        let Some(Err(error)) = outcome else { return };
        let now_s = store::Clock::now_s(&*self.clock);
        if error.to_string().contains("on purpose") {
            return;
        }
        let is_fair = match (step, error.kind()) {
            // What it was registered under may have been taken from the repository.
            (Step::Commit { repo, sha256, .. }, ErrorKind::Invalid | ErrorKind::Conflict) => {
                let known = self.registered.iter().find(|(of, known, _)| of == repo && known == sha256);
                known.is_none_or(|(_, _, at_s)| now_s - at_s + 3600 >= GRACE_S)
            }
            // The xorbs it believes to be there are gone.
            (Step::Push { xorbs: false, .. }, ErrorKind::Invalid) => true,
            // Deleted while it was sent: a retry succeeds.
            (Step::Push { .. }, ErrorKind::Unavailable) => error.to_string().contains("just swept"),
            (Step::Gc, ErrorKind::Conflict) => true,
            // What it was about to move was swept.
            (Step::Compact, ErrorKind::Unavailable) => error.to_string().contains("just swept"),
            _ => false,
        };
        assert!(is_fair, "{step:?}: {error}");
    }

    async fn read_again(&mut self) {
        self.refs = self.actual().await;
        let repos: HashSet<_> = self.refs.keys().map(|(repo, _)| repo.clone()).collect();
        self.registered.retain(|(repo, ..)| repos.contains(repo) || !REPOS.contains(&repo.as_str()));
    }

    async fn repos(&self) -> Vec<RepoRow> {
        let query = RepoQuery {
            kind: Kind::Model,
            namespace: None,
            search: None,
            private_of: None,
            after: None,
            limit: 100,
        };
        self.main.store.hub().list_repos(&query).await.unwrap()
    }

    /// What refs lead to, as it is.
    async fn actual(&self) -> BTreeMap<(String, String), BTreeMap<String, Sha256>> {
        let mut actual = BTreeMap::new();
        for repo in self.repos().await {
            for given in self.main.store.hub().refs(repo.id, "").await.unwrap() {
                let paths = paths(&self.main.store, &repo, given.target).await;
                let paths = paths.into_iter().map(|(path, (sha256, _))| (path, sha256)).collect();
                actual.insert((repo.name.name.clone(), given.name), paths);
            }
        }
        actual
    }

    /// All that refs lead to is there: as it should be, and, where something was deleted, byte for byte.
    async fn check(&self, bytes_too: bool) {
        assert_eq!(self.actual().await, self.refs, "refs are not as they should be");
        if !bytes_too {
            return;
        }
        for (repo, file, sha256) in self.reachable().await {
            let name = RepoName::new(Kind::Model, "ann", &repo).unwrap();
            let found = read(&self.main.store, &name, file).await;
            let found = found.unwrap_or_else(|error| panic!("{repo}: {file} cannot be read: {error}"));
            assert!(digest(&found) == sha256, "{repo}: {file} has other bytes");
        }
    }

    /// Every file of every commit that a ref leads to.
    async fn reachable(&self) -> BTreeSet<(String, FileHash, Sha256)> {
        let mut reachable = BTreeSet::new();
        let store = &self.main.store;
        for repo in self.repos().await {
            let mut seen: HashSet<Oid> = HashSet::new();
            let refs = store.hub().refs(repo.id, "").await.unwrap().into_iter().map(|given| given.target);
            // What refs have left can be had back for a while: it must be there as well.
            let left = store.hub().reflog(repo.id).await.unwrap().into_iter().map(|left| left.oid);
            for target in refs.chain(left) {
                let (past, _) = store.hub().history(repo.id, target, 0, 1000).await.unwrap();
                for past in past.into_iter().filter(|past| seen.insert(past.oid)) {
                    let found = paths(store, &repo, past.oid).await;
                    let name = &repo.name.name;
                    reachable.extend(found.into_values().map(|(sha256, file)| (name.clone(), file, sha256)));
                }
            }
        }
        reachable
    }

    /// Time passes and nothing happens but sweeps: what is left is what refs lead to.
    pub(crate) async fn check_final_state(&mut self) {
        self.main.faults.disarm();
        for _ in 0..6 {
            self.clock.advance(2 * GRACE_S);
            perform(&self.main.store, &Step::Gc, None).await.unwrap();
            self.check(true).await;
        }
        let reachable = self.reachable().await;
        let repos: HashSet<_> = self.repos().await.iter().map(|repo| repo.name.name.clone()).collect();
        // Files of a name that no repository has are kept: a CAS client uses the store without one.
        let retained: HashSet<_> =
            self.registered.iter().filter(|(repo, ..)| !repos.contains(repo)).collect();
        let files: HashSet<_> = reachable.iter().map(|(_, file, _)| *file).collect();
        let hashes: Vec<_> = files.iter().copied().collect();
        let rows = testing::all_files(&self.catalog, &hashes).await.unwrap();
        assert_eq!(rows.len(), files.len());
        let used: HashSet<_> = rows
            .iter()
            .flat_map(|row| row.recipe.xorbs.iter().map(|xorb| ObjectKey::Xorb(xorb.key).to_string()))
            .collect();
        if retained.is_empty()
            && self.refs.keys().map(|(repo, _)| repo).collect::<HashSet<_>>().len() == REPOS.len()
        {
            assert_eq!(self.listed(Folder::Xorbs).await, used, "xorbs");
            assert_eq!(testing::counts(&self.catalog).await.unwrap().files, files.len() as u64, "files");
        }
        assert!(used.is_subset(&self.listed(Folder::Xorbs).await));
        self.check_rows().await;
        let options = VerifyOptions { deep: true, ..VerifyOptions::default() };
        let verified = self.main.store.upkeep().verify(&options, &VerifyProgress::default()).await.unwrap();
        assert_eq!(verified.damages, []);
        let ann = QuotaOf::Namespace("ann".into());
        let usage = testing::usage(&self.catalog, &ann).await.unwrap();
        testing::recount_usage(&self.catalog).await.unwrap();
        assert_eq!(
            usage,
            testing::usage(&self.catalog, &ann).await.unwrap(),
            "the running counts match the store"
        );
    }

    async fn listed(&self, folder: Folder) -> HashSet<String> {
        let listed: Vec<_> = self.main.store.objects().list(folder).try_collect().await.unwrap();
        listed.into_iter().map(|listed| listed.path).collect()
    }

    /// No row without its object, no object without its row, nothing on its way out.
    async fn check_rows(&self) {
        let counts = testing::counts(&self.catalog).await.unwrap();
        assert_eq!(counts.xorbs, self.listed(Folder::Xorbs).await.len() as u64, "rows and objects of xorbs");
        assert_eq!(
            counts.shards,
            self.listed(Folder::Shards).await.len() as u64,
            "rows and objects of shards"
        );
        assert_eq!(testing::unswept_repos(&self.catalog).await.unwrap(), []);
        let mut bundles: HashMap<_, Vec<_>> = HashMap::new();
        for path in self.listed(Folder::Commits).await {
            if let ObjectKey::Bundle { repo, commit } = path.parse().unwrap() {
                bundles.entry(repo).or_default().push(commit);
            }
        }
        for (repo, commits) in bundles {
            let used = testing::used_bundles(&self.catalog, repo, &commits).await.unwrap();
            assert_eq!(used.len(), commits.len(), "bundles that nobody needs");
        }
    }
}

/// Whether the outcome of two concurrent steps is undefined.
fn clash(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Commit { repo: a, .. }, Step::Commit { repo: b, .. }) => a == b,
        (Step::Commit { repo: a, .. }, Step::Pull { repo: b, .. })
        | (Step::Pull { repo: a, .. }, Step::Commit { repo: b, .. }) => a == b,
        _ => false,
    }
}

fn actor(catalog: &Arc<Catalog>, memory: &Arc<InMemory>, dates: &Dates, clock: &Arc<ManualClock>) -> Actor {
    let faults = Faults::default();
    let objects = FaultyObjects::dated(memory.clone(), faults.clone(), dates.clone());
    let catalog = faulty_catalog(catalog, &faults);
    let dedup = DedupOptions { answer_s: 600, ..DedupOptions::default() };
    let options = Options { threads: 1, dedup, trash_s: 3 * GRACE_S, ..Options::default() };
    let store = Store::new(Objects::new(Arc::new(objects)), catalog, clock.clone(), &options);
    Actor { store, faults }
}

async fn perform(store: &Store, step: &Step, upload: Option<Arc<Upload>>) -> store::Result<()> {
    match step {
        Step::CreateRepo(repo) => store.hub().create_repo(&name(repo), false, "ann").await.map(|_| ()),
        Step::DeleteRepo(repo) => store.hub().delete_repo(&find(store, repo).await?).await,
        Step::Push { repo, xorbs, .. } => {
            let upload = upload.unwrap();
            let grant = Grant::write(name(repo).scope()?);
            for xorb in upload.xorbs.iter().filter(|_| *xorbs) {
                let bytes = Bytes::from(xorb.bytes.clone());
                let declared = Some(bytes.len() as u64);
                store
                    .content()
                    .put_xorb(&grant, xorb.info.hash(), declared, stream::iter([Ok(bytes)]))
                    .await?;
            }
            let shard = Bytes::from(upload.shard());
            let declared = Some(shard.len() as u64);
            let progress = Progress::default();
            store.content().register(&grant, declared, stream::iter([Ok(shard)]), &progress).await.map(|_| ())
        }
        Step::Commit { repo, branch, path, sha256 } => {
            let put = Operation::PutLinked { path: path.clone(), sha256: *sha256, bytes: None };
            commit(store, repo, branch, put).await
        }
        Step::DeletePath { repo, branch, path } => {
            commit(store, repo, branch, Operation::Delete { path: path.clone() }).await
        }
        Step::Branch { repo, from } => {
            let repo = find(store, repo).await?;
            let at = store.hub().ref_target(repo.id, from).await?.unwrap();
            store.hub().create_ref(repo.id, HEADS, "side", at).await
        }
        Step::DeleteBranch { repo } => {
            store.hub().delete_ref(find(store, repo).await?.id, HEADS, "side").await
        }
        Step::Squash { repo, branch } => {
            let repo = find(store, repo).await?;
            store.hub().squash(&repo, branch, "ann", "all at once").await.map(|_| ())
        }
        Step::Gc => {
            let options = GcOptions { grace_s: GRACE_S, ..GcOptions::default() };
            let swept = match store.upkeep().collect_garbage(&options, &GcProgress::default()).await {
                // A large part of a small store.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    let options = GcOptions { allow_large_deletion: true, ..options };
                    store.upkeep().collect_garbage(&options, &GcProgress::default()).await?
                }
                swept => swept?,
            };
            assert_eq!(swept.skipped, [""; 0]);
            Ok(())
        }
        Step::Compact => {
            let options = CompactOptions { live_share_max: 0.95, dry_run: false };
            store.upkeep().compact(&options, &CompactProgress::default()).await.map(|_| ())
        }
        Step::Pull { repo, branch, path } => {
            let row = find(store, repo).await?;
            let at = store.hub().ref_target(row.id, branch).await?.unwrap();
            let item = store.hub().find_path(row.id, at, path).await?.unwrap();
            let linked = item.linked.unwrap();
            let bytes = read(store, &row.name, linked.file).await?;
            assert!(digest(&bytes) == linked.sha256, "{path} has other bytes");
            Ok(())
        }
    }
}

async fn commit(store: &Store, repo: &str, branch: &str, operation: Operation) -> store::Result<()> {
    let repo = find(store, repo).await?;
    let request = Request {
        ref_name: branch.to_owned(),
        parent: None,
        author: "ann".into(),
        message: "a commit".into(),
        operations: vec![operation],
    };
    store.hub().commit(&repo, &request).await.map(|_| ())
}

async fn find(store: &Store, repo: &str) -> store::Result<RepoRow> {
    let found = store.hub().repo(&name(repo)).await?;
    found.ok_or_else(|| store::Error::new(ErrorKind::NotFound, "no such repository"))
}

async fn read(store: &Store, repo: &RepoName, file: FileHash) -> store::Result<Vec<u8>> {
    let grant = Grant::read(repo.scope()?);
    let bytes = store.content().file_bytes(&grant, file).await?;
    let pieces: Vec<Bytes> = store.content().read_file(&grant, file, 0..bytes).await?.try_collect().await?;
    Ok(pieces.concat())
}

/// Large files of a commit by path.
async fn paths(store: &Store, repo: &RepoRow, at: Oid) -> BTreeMap<String, (Sha256, FileHash)> {
    let page = Page { recursive: true, after: None, limit: 1000 };
    let listing = store.hub().list_folder(repo.id, at, "", &page).await.unwrap().unwrap();
    let files = listing.items.into_iter().filter_map(|item| Some((item.path, item.linked?)));
    files.map(|(path, linked)| (path, (linked.sha256, linked.file))).collect()
}

fn name(repo: &str) -> RepoName {
    RepoName::new(Kind::Model, "ann", repo).unwrap()
}

fn side() -> String {
    format!("{HEADS}side")
}

fn digest(bytes: &[u8]) -> Sha256 {
    Sha256::new(sha2::Sha256::digest(bytes).into())
}
