//! The Hub API in this process.
