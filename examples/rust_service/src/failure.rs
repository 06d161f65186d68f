//! What a request that failed is told: a status and a text.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use oneflow_runtime::{Error, ErrorKind};
use serde_json::json;

#[derive(Clone, Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub text: String,
}

impl Failure {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// The request is wrong.
    pub fn wrong(text: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, text)
    }

    /// It may be asked again later.
    pub fn later(text: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

/// What is wrong with a request is told by errors of values; the rest is the service's.
impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        let status = match e.kind() {
            ErrorKind::Value | ErrorKind::Type | ErrorKind::Index => StatusCode::BAD_REQUEST,
            ErrorKind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure::new(status, e.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.text }))).into_response()
    }
}
