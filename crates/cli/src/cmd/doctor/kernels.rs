//! The kernels of this processor: which are in use, and whether each is faster than its portable twin.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use xet::kernels::{self, Choice, Kernel};

use super::Finding;
use crate::cmd::noise::Noise;

/// Throughput of the implementations of one kernel on this machine.
#[derive(Debug, Serialize)]
pub(super) struct Speed {
    name: &'static str,
    /// Implementation that this process runs.
    in_use: String,
    native: String,
    native_gb_per_s: f64,
    /// None where a library has no portable implementation to compare.
    portable_gb_per_s: Option<f64>,
    /// Whether both gave the same result.
    agree: bool,
}

/// Measures each kernel and its portable twin for about 50 ms.
pub(super) fn measure() -> Vec<Speed> {
    let mut noise = Noise::new(1);
    let data: Vec<_> = (0..DATA_BYTES / 8).flat_map(|_| noise.next().to_le_bytes()).collect();
    let mut speeds: Vec<_> = kernels::all().iter().map(|kernel| speed(kernel, &data)).collect();
    let (crc_gb_per_s, _) = rate(&data, |bytes| u64::from(shardpack::layout::crc(&[bytes])));
    let target = shardpack::layout::crc_target();
    speeds.push(Speed {
        name: "CRC-32C",
        in_use: target.clone(),
        native: target,
        native_gb_per_s: crc_gb_per_s,
        portable_gb_per_s: None,
        agree: true,
    });
    speeds
}

fn speed(kernel: &Kernel, data: &[u8]) -> Speed {
    let (native_gb_per_s, native) = rate(data, kernel.run_native);
    let portable = kernel.run_portable.map(|run| rate(data, run));
    let in_use = match (kernels::choice(), portable) {
        (Choice::Portable, Some(_)) => "portable",
        _ => kernel.native,
    };
    Speed {
        name: kernel.name,
        in_use: in_use.to_owned(),
        native: kernel.native.to_owned(),
        native_gb_per_s,
        portable_gb_per_s: portable.map(|(rate, _)| rate),
        agree: portable.is_none_or(|(_, portable)| portable == native),
    }
}

/// The best of many rounds, since others may be at work on this machine, in GB/s; and the result.
fn rate(data: &[u8], run: impl Fn(&[u8]) -> u64) -> (f64, u64) {
    let begun = Instant::now();
    let (mut best, mut result) = (f64::MAX, 0);
    while begun.elapsed() < MEASURED_FOR {
        let round = Instant::now();
        result = black_box(run(black_box(data)));
        best = best.min(round.elapsed().as_secs_f64());
    }
    (data.len() as f64 / best.max(1e-9) / 1e9, result)
}

pub(super) fn finding(speed: &Speed) -> Finding {
    let &Speed { name, ref in_use, ref native, native_gb_per_s, portable_gb_per_s, agree } = speed;
    let Some(portable) = portable_gb_per_s else {
        return Finding::ok(name, format!("{in_use}, {native_gb_per_s:.1} GB/s"));
    };
    let found = format!("{in_use} in use; {native} {native_gb_per_s:.1} GB/s, portable {portable:.1} GB/s");
    if !agree {
        let advice = "set DRYSTONE_KERNELS=portable, and report this processor: the results differ";
        return Finding::fail(name, found, advice);
    }
    if native_gb_per_s < SLOWER * portable && kernels::choice() == Choice::Native {
        return Finding::warn(
            name,
            found,
            "slower than the portable code here: set DRYSTONE_KERNELS=portable",
        );
    }
    Finding::ok(name, found)
}

const MEASURED_FOR: Duration = Duration::from_millis(50);
/// Enough for sixteen messages of SHA-256 side by side, and little enough for the cache of a core.
const DATA_BYTES: usize = 1 << 20;
/// Where there is no kernel both run the same code, and differ by chance.
const SLOWER: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(native_gb_per_s: f64, portable_gb_per_s: Option<f64>, agree: bool) -> Speed {
        let (in_use, native) = ("AVX-512".to_owned(), "AVX-512".to_owned());
        Speed { name: "x", in_use, native, native_gb_per_s, portable_gb_per_s, agree }
    }

    #[test]
    fn a_kernel_that_is_slower_than_its_twin_is_a_warning_and_a_wrong_one_a_failure() {
        let state = |speed: &Speed| format!("{:?}", finding(speed).state);
        assert_eq!(state(&speed(4.0, Some(1.0), true)), "Ok");
        assert_eq!(state(&speed(0.1, Some(1.0), true)), "Warn");
        assert_eq!(state(&speed(0.95, Some(1.0), true)), "Ok", "the same code, by chance");
        assert_eq!(state(&speed(4.0, Some(1.0), false)), "Fail");
        assert_eq!(state(&speed(4.0, None, true)), "Ok");
        assert!(finding(&speed(0.1, Some(1.0), true)).advice.unwrap().contains("DRYSTONE_KERNELS=portable"));
    }

    #[test]
    fn every_kernel_is_measured_and_gives_what_its_twin_gives() {
        let speeds = measure();
        let names: Vec<_> = speeds.iter().map(|speed| speed.name).collect();
        assert_eq!(names, ["gear search", "SHA-256 of many", "LZ4", "BLAKE3", "CRC-32C"]);
        for speed in speeds {
            assert!(speed.agree && speed.native_gb_per_s > 0.0, "{speed:?}");
        }
    }
}
