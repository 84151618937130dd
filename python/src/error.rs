//! Errors as Python exceptions: one table from kind to class.

use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;
use shardpack::error::Cause;
use shardpack::{Error, ErrorKind};

/// The exception for a failure with a pack. It has the attributes `pack`, `key`, `entry`, `offset` and `ordinal`.
pub(crate) fn raise(error: &Error) -> PyErr {
    // The error of a hub about a remote pack.
    if let Cause::Io(cause) = error.cause()
        && let Some(error) = cause.get_ref().and_then(|inner| inner.downcast_ref())
    {
        return raise_client(error);
    }
    let class = match (error.kind(), error.cause()) {
        (ErrorKind::NotFound, Cause::Io(_)) => return PyFileNotFoundError::new_err(error.to_string()),
        (ErrorKind::Io, Cause::Io(cause)) => return os_error(cause.raw_os_error(), error.to_string()),
        (ErrorKind::Corrupt, _) => "CorruptError",
        (ErrorKind::NotFound, _) => "NotFoundError",
        (ErrorKind::TooLarge, _) => "TooLargeError",
        _ => "InvalidError",
    };
    Python::attach(|py| match instance(py, class, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    })
}

/// The exception for a failure with a hub. It has the attributes `request_id` and `retry_after`, in seconds.
pub(crate) fn raise_client(error: &client::Error) -> PyErr {
    use client::ErrorKind;
    let class = match error.kind() {
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Denied => "DeniedError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Io => "TransferError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Expired | ErrorKind::Unavailable => "UnavailableError",
        _ => "DrystoneError",
    };
    let made = |py: Python<'_>| -> PyResult<PyErr> {
        let exception = py.import("drystone.errors")?.getattr(class)?.call1((error.to_string(),))?;
        exception.setattr("request_id", error.request_id())?;
        exception.setattr("retry_after", error.retry_after().map(|wait| wait.as_secs_f64()))?;
        Ok(PyErr::from_value(exception))
    };
    Python::attach(|py| made(py).unwrap_or_else(|failed| failed))
}

/// The exception for invalid arguments.
pub(crate) fn invalid(why: impl Into<String>) -> PyErr {
    raise(&Error::invalid(why))
}

fn instance<'py>(py: Python<'py>, class: &str, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let exception = py.import("shardpack.errors")?.getattr(class)?.call1((error.to_string(),))?;
    exception.setattr("pack", error.pack())?;
    exception.setattr("key", error.key())?;
    exception.setattr("entry", error.entry())?;
    exception.setattr("offset", error.offset())?;
    exception.setattr("ordinal", error.ordinal())?;
    Ok(exception)
}

fn os_error(code: Option<i32>, message: String) -> PyErr {
    match code {
        // With a number, Python chooses PermissionError, IsADirectoryError and so on by itself.
        Some(code) => PyOSError::new_err((code, message)),
        None => PyOSError::new_err(message),
    }
}
