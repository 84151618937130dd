//! Fragmentation guard: short runs of known chunks are stored again rather than referred to.
//!
//! A file of many tiny terms costs little to store and much to read. While the recent terms of a file are short, a run
//! that would make them shorter is refused.

use std::collections::VecDeque;

/// Lengths of the last terms of one file, in chunks.
#[derive(Debug, Default)]
pub(super) struct FragmentationGuard {
    terms: VecDeque<u32>,
    chunks: u64,
    has_refused: bool,
}

impl FragmentationGuard {
    /// Whether a run of `run` known chunks may begin a new term.
    pub(super) fn allows(&mut self, run: usize) -> bool {
        if self.terms.len() < TERMS {
            return true;
        }
        let mean = self.chunks as f64 / self.terms.len() as f64;
        let least = if self.has_refused { MEAN_AFTER_REFUSAL } else { MEAN };
        if mean >= least {
            self.has_refused = false;
            return true;
        }
        if run as f64 >= mean {
            return true;
        }
        self.has_refused = true;
        false
    }

    /// A chunk was added to the file, in the last term or in a new one.
    pub(super) fn push(&mut self, begins_term: bool) {
        self.chunks += 1;
        match self.terms.back_mut() {
            Some(last) if !begins_term => *last += 1,
            _ => {
                self.terms.push_back(1);
                if self.terms.len() > TERMS {
                    let first = self.terms.pop_front().unwrap_or_default();
                    self.chunks -= u64::from(first);
                }
            }
        }
    }
}

/// How many terms are counted; a file of fewer is never refused anything.
const TERMS: usize = 128;
/// Terms this long on average are fine.
const MEAN: f64 = 4.0;
/// Once a run was refused, so long: what was stored again should be worth it.
const MEAN_AFTER_REFUSAL: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn push_terms(guard: &mut FragmentationGuard, terms: usize, chunks: usize) {
        for _ in 0..terms {
            (0..chunks).for_each(|n| guard.push(n == 0));
        }
    }

    #[test]
    fn short_runs_are_refused_once_a_file_is_in_pieces() {
        let mut guard = FragmentationGuard::default();
        push_terms(&mut guard, 127, 1);
        assert!(guard.allows(1), "too few terms to judge");
        push_terms(&mut guard, 1, 1);
        assert!(guard.allows(1), "no shorter than the others");
        push_terms(&mut guard, 64, 3);
        assert!(!guard.allows(1), "shorter than the mean of 2");
        assert!(guard.allows(2));
        push_terms(&mut guard, 64, 7);
        assert!(!guard.allows(4), "a mean of 5 is not enough after a refusal");
        push_terms(&mut guard, 128, 8);
        assert!(guard.allows(1), "the file is whole again");
    }
}
