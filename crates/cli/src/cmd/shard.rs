//! `drystone shard`: making a shard from files, and showing one so that it can be made again.

mod packing;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand, ValueEnum};
use xet::compress::Policy;
use xet::shard::{Form, LookupTables, ShardBuilder, StoredOptions};
use xet::{HashKey, ShardHash};

use super::inspect::describe_shard;
use super::xorb::FooterChoice;
use crate::describe::shard::{ShardDescription, parse_key};
use crate::files::{leads_to_stdout, read_shard, write_whole};
use crate::output::{CliError, fail, print_json_pretty};
use packing::Packing;

#[derive(Debug, Subcommand)]
pub(crate) enum ShardVerb {
    Build(Box<Build>),
    Dump(Dump),
}

/// Describe files, and the xorbs their chunks go into, in a shard
///
/// Repeated chunks are stored once. With --xorbs the xorbs are written too: together they are what an upload sends. Prints the
/// shard hash.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  drystone shard build -o up.shard --xorbs xorbs/ model.safetensors\n  \
                        drystone shard dump a.shard | drystone shard build --from - --form stored -o b.shard")]
pub(crate) struct Build {
    /// Files to describe
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    files: Vec<PathBuf>,

    /// Build from the JSON of `shard dump` instead; `-` is standard input
    #[arg(long, value_name = "JSON")]
    from: Option<PathBuf>,

    /// Output file; `-` is standard output
    #[arg(short, long, value_name = "SHARD")]
    output: PathBuf,

    /// Form of the shard [default: that of --from, else upload; minimal where an option needs a footer]
    #[arg(long, value_enum)]
    form: Option<FormChoice>,

    /// Leave out the range hashes that prove possession
    #[arg(long)]
    no_verification: bool,

    /// Leave out the SHA-256 of the files
    #[arg(long)]
    no_sha256: bool,

    /// Key the chunk hashes as a dedup answer does: 64 hexadecimal digits, plain
    #[arg(long, value_name = "HEX", value_parser = |text: &str| parse_key(text), conflicts_with = "from")]
    key: Option<HashKey>,

    /// Unix seconds for the footer
    #[arg(long, value_name = "SECONDS")]
    created: Option<u64>,

    /// Unix seconds after which the shard is not to be used [default: never]
    #[arg(long, value_name = "SECONDS")]
    expires: Option<u64>,

    /// Write the xorbs into this directory, named by hash
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    xorbs: Option<PathBuf>,

    /// Compression of the xorbs: auto, none, lz4 or bg4-lz4
    #[arg(long, value_name = "SCHEME", default_value_t, conflicts_with = "from")]
    scheme: Policy,

    /// Footer of the xorbs
    #[arg(long, value_name = "FOOTER", value_enum, default_value_t = FooterChoice::None, conflicts_with = "from")]
    footer: FooterChoice,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormChoice {
    /// No footer, no tables: what clients send
    Upload,
    /// Lookup tables and footer
    Stored,
    /// A footer, but no tables
    Minimal,
    /// A footer, no tables, no files: what a server answers to a dedup query
    Dedup,
}

/// Print a shard as JSON that `shard build --from` reads
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  drystone shard dump upload.shard > upload.json")]
pub(crate) struct Dump {
    /// The shard
    shard: PathBuf,
}

impl ShardVerb {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Build(build) => build.run(),
            Self::Dump(dump) => dump.run(),
        }
    }
}

impl Build {
    fn run(self) -> Result<ExitCode, CliError> {
        if matches!(self.form, Some(FormChoice::Upload)) && self.needs_footer() {
            let text = "--key, --created and --expires have their place in a footer: an upload has none";
            super::Drystone::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        let (mut builder, described) = match &self.from {
            Some(path) => from_json(path)?,
            None => (self.pack()?, Form::Upload),
        };
        if self.no_verification {
            builder.drop_verification();
        }
        if self.no_sha256 {
            builder.drop_sha256();
        }
        let form = self.form(described, &mut builder)?;
        if let (Form::Stored(footing), None) = (&form, &self.from) {
            builder.key_chunks(&footing.key);
        }
        let bytes = builder.encode(&form).map_err(|error| CliError::format(&self.output, error))?;
        write_whole(&self.output, |out| Ok(out.write_all(&bytes)?))?;
        if !leads_to_stdout(&self.output) {
            writeln!(io::stdout(), "{}", ShardHash::of(&bytes))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn pack(&self) -> Result<ShardBuilder, CliError> {
        let mut packing = Packing::new(self.scheme, self.footer.into(), self.xorbs.clone());
        for path in &self.files {
            packing.push_file(path)?;
        }
        packing.finish()
    }

    fn needs_footer(&self) -> bool {
        self.key.is_some() || self.created.is_some() || self.expires.is_some()
    }

    /// The requested form, else that of the description.
    fn form(&self, described: Form, builder: &mut ShardBuilder) -> Result<Form, CliError> {
        let had = match &described {
            Form::Stored(footing) => footing.clone(),
            Form::Upload => StoredOptions::LOCAL,
        };
        let footing = |tables| {
            Form::Stored(StoredOptions {
                tables,
                key: self.key.unwrap_or(had.key),
                created_s: self.created.unwrap_or(had.created_s),
                expires_s: self.expires.unwrap_or(had.expires_s),
            })
        };
        Ok(match (self.form, described) {
            (Some(FormChoice::Upload), _) if !had.key.is_zero() => {
                let text =
                    "its chunk hashes are keyed, and only a footer can say so: it cannot become an upload";
                let from = self.from.as_deref().unwrap_or(Path::new("-"));
                return fail(format!("{}: {text}", from.display()));
            }
            (Some(FormChoice::Upload), _) => Form::Upload,
            (None, Form::Upload) if !self.needs_footer() => Form::Upload,
            (Some(FormChoice::Stored), _) => footing(LookupTables::ALL),
            (Some(FormChoice::Dedup), _) => {
                builder.flag_file_starts();
                builder.drop_files();
                footing(LookupTables::NONE)
            }
            (None, Form::Stored(_)) => footing(had.tables),
            (Some(FormChoice::Minimal), _) | (None, Form::Upload) => {
                builder.flag_file_starts();
                footing(LookupTables::NONE)
            }
        })
    }
}

fn from_json(path: &Path) -> Result<(ShardBuilder, Form), CliError> {
    let parsed: Result<ShardDescription, _> = if path == Path::new("-") {
        serde_json::from_reader(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| CliError::io(path, error))?;
        serde_json::from_reader(BufReader::new(file))
    };
    let refuse = |error: &dyn std::fmt::Display| CliError::Message(format!("{}: {error}", path.display()));
    let description = parsed.map_err(|error| refuse(&error))?;
    description.into_builder().map_err(|error| refuse(&error))
}

impl Dump {
    fn run(self) -> Result<ExitCode, CliError> {
        let description = describe_shard(&self.shard, &read_shard(&self.shard)?)?;
        let mut out = BufWriter::new(io::stdout());
        print_json_pretty(&mut out, &description)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
