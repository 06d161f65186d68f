//! Who may be at the other end: whoever proves to have the key it shows, or whoever has a certificate of the job's authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, RootCertStore, SignatureScheme,
};

/// Any key: the proof of the job's secret, bound to the session, says whose it is.
#[derive(Debug)]
pub(super) struct AnyKey(pub WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Certificates that the job's authority has signed, at both ends. Their names count where the job has one; the address at which
/// a rank is found does not: a store that is not trusted has told it.
#[derive(Debug)]
pub(super) struct Authority {
    roots: Arc<RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
    name: Option<ServerName<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Authority {
    /// `Err`: the roots are none.
    pub fn new(
        roots: RootCertStore,
        name: Option<ServerName<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Authority, String> {
        let (roots, algorithms) = (Arc::new(roots), provider.signature_verification_algorithms);
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build();
        Ok(Authority { roots, clients: clients.map_err(|e| e.to_string())?, name, algorithms })
    }

    /// Whether peers would take this certificate, from either end.
    pub fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let (own, rest) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.as_server(own, rest, UnixTime::now())?;
        self.verify_client_cert(own, rest, UnixTime::now()).map(drop)
    }

    fn as_server(&self, own: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let own = ParsedCertificate::try_from(own)?;
        verify_server_cert_signed_by_trust_anchor(&own, &self.roots, rest, now, self.algorithms.all)?;
        self.name.as_ref().map_or(Ok(()), |name| verify_server_name(&own, name))
    }
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.as_server(own, rest, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Authority {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.clients.verify_client_cert(own, rest, now)?;
        if let Some(name) = &self.name {
            let own = ParsedCertificate::try_from(own)?;
            verify_server_name(&own, name).map_err(|_| CertificateError::NotValidForName)?;
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
