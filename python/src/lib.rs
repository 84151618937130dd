//! The native half of the Python packages `shardpack` and `drystone`.

mod block;
mod connection;
mod dataset;
mod entry;
mod error;
mod hub;
mod open_packs;
mod order;
mod process;
mod record;
mod records;
mod remote;
mod stream;
mod writer;

/// The Python module `drystone._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::dataset::Dataset;
    #[pymodule_export]
    use crate::entry::Entry;
    #[pymodule_export]
    use crate::hub::Client;
    #[pymodule_export]
    use crate::order::{Positions, state_after, state_new};
    #[pymodule_export]
    use crate::record::{Record, record_of};
    #[pymodule_export]
    use crate::records::Records;
    #[pymodule_export]
    use crate::remote::RemoteFile;
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::writer::{Writer, content_type_of};
}
