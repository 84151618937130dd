//! TLS: the certificate, read again at SIGHUP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no PEM, or a damaged one.
    #[error("{}: {reason}", file.display())]
    Pem {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The key is another certificate's.
    #[error("{} is not the key of the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The library refuses them.
    #[error("{}: {source}", cert.display())]
    Refused {
        /// The certificate.
        cert: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// TLS with the certificate of two files. Clones show the same one.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads the files.
    pub fn open(files: &TlsFiles) -> Result<Self, TlsError> {
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(read(files)?))));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|source| TlsError::Refused { cert: files.cert.clone(), source })?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { files: files.clone(), current, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Reads the files again: new connections get what they hold now. Files that cannot be used change nothing.
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = Arc::new(read(&self.files)?);
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// Whether the certificate in the files is good at a time, so that it can be renewed before it ends.
    pub fn check_at(files: &TlsFiles, at: SystemTime) -> Result<(), TlsError> {
        let refused = |source| TlsError::Refused { cert: files.cert.clone(), source };
        let key = read(files)?;
        let cert = key.end_entity_cert().and_then(ParsedCertificate::try_from).map_err(refused)?;
        let at = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        // Only the validity period is checked (webpki checks it before the issuer), so an empty trust store is enough.
        let roots = RootCertStore::empty();
        match verify_server_cert_signed_by_trust_anchor(&cert, &roots, &[], at, algorithms) {
            Err(
                source @ rustls::Error::InvalidCertificate(
                    CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. },
                ),
            ) => Err(refused(source)),
            _ => Ok(()),
        }
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The current certificate, for every name that clients request.
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A panic elsewhere leaves a whole certificate behind: it is replaced at once or not at all.
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl std::fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentCertificate(..)")
    }
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let TlsFiles { cert, key } = files;
    let chain = bytes(cert)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|error| damaged(cert, &error))?;
    if chain.is_empty() {
        return Err(TlsError::Pem { file: cert.clone(), reason: "no certificate in PEM".to_owned() });
    }
    let private = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::Pem { file: key.clone(), reason: "no private key in PEM".to_owned() }
        }
        error => damaged(key, &error),
    })?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider()).map_err(|source| match source {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
        source => TlsError::Refused { cert: cert.clone(), source },
    })
}

fn bytes(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Read { file: file.to_owned(), source })
}

/// What is wrong with a file, and nothing of what is in it.
fn damaged(file: &Path, error: &pem::Error) -> TlsError {
    let reason = match error {
        pem::Error::Base64Decode(_) => "a section of the PEM is not base64".to_owned(),
        pem::Error::MissingSectionEnd { .. } => "a section of the PEM has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a section of the PEM begins wrongly".to_owned(),
        _ => "not PEM".to_owned(),
    };
    TlsError::Pem { file: file.to_owned(), reason }
}
