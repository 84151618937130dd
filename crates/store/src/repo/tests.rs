//! Repositories, from create to squash.
