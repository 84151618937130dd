// What js.py runs: each line says `ok: …` or `FAILED: …`, the last one `done: `.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const hub = await import(process.env.HUB_JS);
const common = { hubUrl: process.env.HUB_URL, accessToken: process.env.HUB_TOKEN };

function check(name, ok) {
  console.log(`${ok ? "ok" : "FAILED"}: ${name}`);
}

// Bytes that do not compress, the same every time.
function noise(seed, size) {
  const parts = [];
  for (let n = 0; n * 64 < size; n++) parts.push(createHash("sha512").update(`${seed} ${n}`).digest());
  return Buffer.concat(parts).subarray(0, size);
}

async function bytes(blob) {
  return Buffer.from(await blob.arrayBuffer());
}

const me = await hub.whoAmI(common);
check("whoAmI", me.name === "admin");
for (const type of ["model", "dataset"]) {
  const repo = { type, name: "ann/js" };
  await hub.createRepo({ ...common, repo, private: true });
  check(`${type}: repoExists`, (await hub.repoExists({ ...common, repo })) && !(await hub.repoExists({ ...common, repo: { type, name: "ann/none" } })));
  const big = noise(1, 6_000_000);
  const edited = Buffer.concat([big.subarray(0, 2_000_000), Buffer.from("an insertion"), big.subarray(2_000_000)]);
  const files = { "big.bin": big, "dir/small.txt": Buffer.from("a small file\n"), "empty.bin": Buffer.alloc(0), "dir/one.bin": Buffer.from([0]) };
  await hub.uploadFiles({
    ...common,
    repo,
    useXet: true,
    files: Object.entries(files).map(([path, content]) => ({ path, content: new Blob([content]) })),
  });
  await hub.uploadFile({ ...common, repo, useXet: true, file: { path: "edited.bin", content: new Blob([edited]) } });
  await hub.uploadFile({ ...common, repo, useXet: false, file: { path: "whole.bin", content: new Blob([edited]) } });
  files["edited.bin"] = files["whole.bin"] = edited;

  const listed = [];
  for await (const entry of hub.listFiles({ ...common, repo, recursive: true })) if (entry.type === "file") listed.push(entry.path);
  check(`${type}: listFiles`, listed.sort().join() === [".gitattributes", ...Object.keys(files)].sort().join());
  for (const [path, content] of Object.entries(files)) {
    const blob = await hub.downloadFile({ ...common, repo, path });
    check(`${type}: downloadFile ${path}`, blob !== null && blob.size === content.length && (await bytes(blob)).equals(content));
  }
  const blob = await hub.downloadFile({ ...common, repo, path: "edited.bin" });
  let same = true;
  for (const [start, end] of [[0, 1], [1_999_000, 2_001_000], [3_000_000, 4_500_000], [edited.length - 7, edited.length]]) {
    same &&= (await bytes(blob.slice(start, end))).equals(edited.subarray(start, end));
  }
  check(`${type}: slice`, same);
  check(`${type}: downloadFile of nothing`, (await hub.downloadFile({ ...common, repo, path: "none" })) === null);
  check(`${type}: fileExists`, (await hub.fileExists({ ...common, repo, path: "big.bin" })) && !(await hub.fileExists({ ...common, repo, path: "none" })));
  const info = await hub.fileDownloadInfo({ ...common, repo, path: "big.bin" });
  check(`${type}: fileDownloadInfo`, info.size === big.length);
  const [found] = await hub.pathsInfo({ ...common, repo, paths: ["big.bin"] });
  check(`${type}: pathsInfo`, found.size === big.length && found.lfs.oid === createHash("sha256").update(big).digest("hex"));

  const folder = await hub.snapshotDownload({ ...common, repo, cacheDir: join(process.env.HF_HOME, type) });
  same = true;
  for (const [path, content] of Object.entries(files)) same &&= (await readFile(join(folder, path))).equals(content);
  check(`${type}: snapshotDownload`, same);

  let plans = 0;
  const watched = async (url, init) => {
    const answer = await fetch(url, init);
    if (String(url).includes("/v2/file-chunk-hashes/") && answer.ok) plans++;
    return answer;
  };
  let now = edited;
  for (const [title, start, end, content] of [["near the start", 1_000_000, 1_000_010, noise(2, 100_000)], ["at the end", -1, -1, noise(3, 7)]]) {
    const [from, to] = start < 0 ? [now.length, now.length] : [start, end];
    const originalContent = await hub.downloadFile({ ...common, repo, path: "edited.bin" });
    const operation = { operation: "edit", path: "edited.bin", originalContent, edits: [{ content: new Blob([content]), start: from, end: to }] };
    const before = plans;
    await hub.commit({ ...common, fetch: watched, repo, useXet: true, title, operations: [operation] });
    now = Buffer.concat([now.subarray(0, from), content, now.subarray(to)]);
    const after = await hub.downloadFile({ ...common, repo, path: "edited.bin" });
    check(`${type}: edit ${title}`, plans === before + 1 && (await bytes(after)).equals(now));
  }

  await hub.deleteFile({ ...common, repo, path: "empty.bin" });
  await hub.createBranch({ ...common, repo, branch: "feat/js" });
  await hub.commit({ ...common, repo, branch: "feat/js", title: "on a branch", operations: [{ operation: "addOrUpdate", path: "b.txt", content: new Blob(["b"]) }] });
  check(`${type}: a branch`, (await bytes(await hub.downloadFile({ ...common, repo, path: "b.txt", revision: "feat/js" }))).toString() === "b");
  await hub.deleteBranch({ ...common, repo, branch: "feat/js" });
  const titles = [];
  for await (const commit of hub.listCommits({ ...common, repo })) titles.push(commit.title);
  check(`${type}: listCommits`, titles.length === 7 && (await hub.countCommits({ ...common, repo })) === 7);
  await hub.checkRepoAccess({ ...common, repo });
  check(`${type}: checkRepoAccess`, true);
  const seen = [];
  const list = type === "model" ? hub.listModels : hub.listDatasets;
  for await (const one of list({ ...common, search: { owner: "ann" } })) seen.push(one.name);
  check(`${type}: lists`, seen.includes("ann/js"));
  let refused = null;
  await hub.downloadFile({ hubUrl: common.hubUrl, repo, path: "big.bin" }).then((blob) => (refused = blob === null), (error) => (refused = error.statusCode === 401));
  check(`${type}: a private repository is not for everyone`, refused);
  await hub.deleteRepo({ ...common, repo });
  check(`${type}: deleteRepo`, !(await hub.repoExists({ ...common, repo })));
}
// After an edit the package keeps a thread, which would keep the program.
process.stdout.write("done: \n", () => process.exit(0));
