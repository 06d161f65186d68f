//! TLS of a job's connections: what the environment says of it, and the settings of rustls that follow.
//!
//! TLS 1.3 alone, no resumption, no early data. Without certificates each process shows a key that it has made for itself
//! (a raw public key, RFC 7250); who shows it, the proof of the job's secret says, which both ends bind to the very TLS session
//! (RFC 9266), so that nobody in between can pass it on. With certificates each end shows one that the job's authority has
//! signed. Nothing here opens a connection.

mod fault;
mod session;
mod verify;

use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use oneflow_base::{Error, Result};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

pub(crate) use fault::{Fault, NEEDS_PLAIN, NEEDS_TLS, NO_TLS, is_hello};
pub(crate) use session::Session;
use verify::{AnyKey, Authority};

/// `1`: every connection of the job is encrypted.
const SWITCH: &str = "ONEFLOW_TLS";
/// Files in PEM: the authority's certificates, this process's own with those between, its private key.
const AUTHORITY: &str = "ONEFLOW_TLS_CA";
const CERTIFICATE: &str = "ONEFLOW_TLS_CERT";
const PRIVATE_KEY: &str = "ONEFLOW_TLS_KEY";
/// A name that each certificate of the job has.
const NAME: &str = "ONEFLOW_TLS_NAME";

/// How the connections of a job are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    has_certificates: bool,
}

impl Tls {
    /// From any source of variables; `None` where TLS is not asked for.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Option<Tls>> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let files = [AUTHORITY, CERTIFICATE, PRIVATE_KEY].map(|name| (name, var(name)));
        match var(SWITCH).as_deref() {
            Some("1") => {}
            None | Some("0") => {
                let set = files.iter().find(|(_, path)| path.is_some()).map(|(name, _)| *name);
                return match set.or(var(NAME).map(|_| NAME)) {
                    Some(name) => Err(Error::value(format!("{name} is set, but {SWITCH} is not: set {SWITCH}=1"))),
                    None => Ok(None),
                };
            }
            Some(other) => return Err(Error::value(format!("{SWITCH} is '{other}', expected 0 or 1"))),
        }
        match files {
            [(_, None), (_, None), (_, None)] => match var(NAME) {
                None => Tls::with_own_key().map(Some),
                Some(_) => Err(Error::value(format!("{NAME} is a name in certificates: set {CERTIFICATE}, too"))),
            },
            [(_, Some(authority)), (_, Some(certificate)), (_, Some(key))] => {
                Tls::with_certificates(&authority, &certificate, &key, var(NAME).as_deref()).map(Some)
            }
            [a, b, c] => {
                let missing = [a, b, c].into_iter().filter(|(_, path)| path.is_none()).map(|(name, _)| name);
                let missing: Vec<&str> = missing.collect();
                Err(Error::value(format!(
                    "{AUTHORITY}, {CERTIFICATE} and {PRIVATE_KEY} belong together: {} is not set",
                    missing.join(", ")
                )))
            }
        }
    }

    /// With a key that this process makes now. It tells nobody who it is: a secret must do that.
    pub fn with_own_key() -> Result<Tls> {
        let said = |cause: String| Error::runtime(format!("{SWITCH}: no key: {cause}"));
        let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new())
            .map_err(|e| said(e.to_string()))?;
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
        let key = provider::sign::any_eddsa_type(&pkcs8).map_err(|e| said(e.to_string()))?;
        let public = key.public_key().ok_or_else(|| said("its public half is unknown".to_owned()))?;
        let own = CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key);
        let provider = suites();
        let verifier = Arc::new(AnyKey(provider.signature_verification_algorithms));
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| said(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| said(e.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(own))));
        Ok(Tls::of(client, server, false))
    }

    fn with_certificates(authority: &str, certificate: &str, key: &str, name: Option<&str>) -> Result<Tls> {
        let said = |variable: &str, path: &str, cause: String| Error::value(format!("{variable}: '{path}' {cause}"));
        let mut roots = RootCertStore::empty();
        for root in certificates(authority).map_err(|cause| said(AUTHORITY, authority, cause))? {
            roots.add(root).map_err(|e| said(AUTHORITY, authority, format!("is no authority's certificate: {e}")))?;
        }
        let chain = certificates(certificate).map_err(|cause| said(CERTIFICATE, certificate, cause))?;
        let private = private_key(key).map_err(|cause| said(PRIVATE_KEY, key, cause))?;
        let name = name.map(|name| ServerName::try_from(name.to_owned()));
        let name = name.transpose().map_err(|e| Error::value(format!("{NAME} is no name: {e}")))?;
        let provider = suites();
        let other = |e: rustls::Error| said(CERTIFICATE, certificate, format!("cannot be used with '{key}': {e}"));
        CertifiedKey::from_der(chain.clone(), private.clone_key(), &provider).map_err(other)?;
        let verifier = Authority::new(roots, name, provider.clone())
            .map_err(|e| said(AUTHORITY, authority, format!("is no authority's certificate: {e}")))?;
        // What its peers would find is better said here.
        verifier
            .check(&chain)
            .map_err(|e| said(CERTIFICATE, certificate, format!("{}: {e}", fault::of_own_certificate(&e))))?;
        Tls::shows(chain, private, verifier, provider).map_err(other)
    }

    /// Shows a certificate, and looks at those of the others.
    fn shows(
        chain: Vec<CertificateDer<'static>>,
        private: PrivateKeyDer<'static>,
        verifier: Authority,
        provider: Arc<CryptoProvider>,
    ) -> Result<Tls, rustls::Error> {
        let verifier = Arc::new(verifier);
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_auth_cert(chain.clone(), private.clone_key())?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private)?;
        Ok(Tls::of(client, server, true))
    }

    fn of(mut client: ClientConfig, mut server: ServerConfig, has_certificates: bool) -> Tls {
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Tls { client: Arc::new(client), server: Arc::new(server), has_certificates }
    }

    /// Both ends show certificates of the job's authority, so that no secret is needed.
    pub fn has_certificates(&self) -> bool {
        self.has_certificates
    }

    /// The end that connects. `read_size`: bytes taken off the socket at once.
    pub(crate) fn connects(&self, socket: &TcpStream, read_size: usize) -> std::io::Result<Session> {
        // A key or an authority says who is at the other end, not its address, which is not trusted anyway.
        let name = ServerName::IpAddress(socket.peer_addr()?.ip().into());
        let connection = ClientConnection::new(self.client.clone(), name).map_err(std::io::Error::other)?;
        Ok(Session::new(connection.into(), read_size))
    }

    pub(crate) fn accepts(&self, read_size: usize) -> std::io::Result<Session> {
        let connection = ServerConnection::new(self.server.clone()).map_err(std::io::Error::other)?;
        Ok(Session::new(connection.into(), read_size))
    }
}

/// AES-128 first: the fastest where processors have instructions for it, which all of the last ten years have.
fn suites() -> Arc<CryptoProvider> {
    use provider::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..provider::default_provider() })
}

/// The certificates of a file. `Err`: the end of a sentence that begins with its name.
fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err("has no certificate in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(e) => Err(format!("has no certificate in PEM: {e}")),
    }
}

fn private_key(path: &str) -> Result<PrivateKeyDer<'static>, String> {
    let mode = std::fs::metadata(Path::new(path)).map_err(|e| format!("cannot be read: {e}"))?.mode();
    if mode & 0o077 != 0 {
        return Err(format!("can be read by other users (mode {:04o}): chmod 600", mode & 0o7777));
    }
    let text = std::fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|e| format!("has no private key in PEM: {e}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// A file of `tests/certificates`, whose script says what they are.
    fn file(name: &str) -> String {
        format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// As a checkout has them, keys can be read by everybody.
    fn key_file(name: &str, mode: u32) -> String {
        use std::os::unix::fs::OpenOptionsExt;
        static N: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("comm-key-{}-{n}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut copy = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).unwrap();
        copy.write_all(&std::fs::read(file(name)).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn from(vars: &[(&str, &str)]) -> Result<Option<Tls>> {
        Tls::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string()))
    }

    /// With a certificate and its key that this end does not look at itself: what peers find is tested here.
    pub fn shows(authority: &str, certificate: &str, name: Option<&str>) -> Tls {
        let mut roots = RootCertStore::empty();
        certificates(&file(authority)).unwrap().into_iter().for_each(|root| roots.add(root).unwrap());
        let private = key_file(&certificate.replace(".pem", ".key"), 0o600);
        let (chain, key) = (certificates(&file(certificate)).unwrap(), private_key(&private).unwrap());
        std::fs::remove_file(private).unwrap();
        let name = name.map(|name| ServerName::try_from(name.to_owned()).unwrap());
        Tls::shows(chain, key, Authority::new(roots, name, suites()).unwrap(), suites()).unwrap()
    }

    #[test]
    fn settings_belong_together_and_files_are_looked_at() {
        assert!(from(&[]).unwrap().is_none() && from(&[(SWITCH, "0"), (AUTHORITY, "")]).unwrap().is_none());
        assert!(!from(&[(SWITCH, "1")]).unwrap().unwrap().has_certificates());
        let pem = |name: &str| file(&format!("{name}.pem"));
        let (authority, rank, key) = (pem("authority"), pem("rank"), key_file("rank.key", 0o600));
        let all = [(SWITCH, "1"), (AUTHORITY, &*authority), (CERTIFICATE, &*rank), (PRIVATE_KEY, &*key)];
        let with = |change: &[(&'static str, &str)]| {
            let vars = [change, &all[..]].concat();
            from(&vars).map(|tls| assert!(tls.unwrap().has_certificates()))
        };
        with(&[]).unwrap();
        with(&[(NAME, "train.example")]).unwrap();
        let (stranger, expired, other, half) = (pem("stranger"), pem("expired"), pem("other_name"), pem("server_only"));
        let of = |name: &str| key_file(&format!("{name}.key"), 0o600);
        let keys = [of("expired"), of("server_only"), of("other_name"), key_file("rank.key", 0o640)];
        for (change, words) in [
            (&[(SWITCH, "0")][..], "ONEFLOW_TLS_CA is set, but ONEFLOW_TLS is not: set ONEFLOW_TLS=1"),
            (&[(SWITCH, "yes")], "ONEFLOW_TLS is 'yes', expected 0 or 1"),
            (&[(CERTIFICATE, "")], "belong together: ONEFLOW_TLS_CERT is not set"),
            (&[(AUTHORITY, ""), (PRIVATE_KEY, "")], "ONEFLOW_TLS_CA, ONEFLOW_TLS_KEY is not set"),
            (&[(AUTHORITY, ""), (CERTIFICATE, ""), (PRIVATE_KEY, ""), (NAME, "a.b")], "ONEFLOW_TLS_NAME is a name in"),
            (&[(NAME, "-no name-")], "ONEFLOW_TLS_NAME is no name"),
            (&[(NAME, "other.example")], "rank.pem' does not have the name in ONEFLOW_TLS_NAME"),
            (&[(AUTHORITY, "/no/such")], "ONEFLOW_TLS_CA: '/no/such' cannot be read"),
            (&[(AUTHORITY, &key)], "has no certificate in PEM"),
            (&[(AUTHORITY, &stranger)], "rank.pem' is not signed by ONEFLOW_TLS_CA"),
            (&[(CERTIFICATE, &expired), (PRIVATE_KEY, &keys[0])], "expired.pem' is expired"),
            (&[(CERTIFICATE, &half), (PRIVATE_KEY, &keys[1])], "server_only.pem' is not for both, servers and clients"),
            (&[(CERTIFICATE, &other)], "other_name.pem' cannot be used with"),
            (&[(PRIVATE_KEY, &keys[3])], "can be read by other users (mode 0640): chmod 600"),
            (&[(PRIVATE_KEY, "/no/such")], "ONEFLOW_TLS_KEY: '/no/such' cannot be read"),
        ] {
            let error = with(change).unwrap_err();
            assert!(error.text().contains(words), "{change:?}: {error}");
        }
        keys.iter().chain([&key]).for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
