//! ONNX files: reading and writing of the messages, and the elements of tensors in all the forms that files have.
//!
//! Deliberately absent: ops, graphs of this framework, and what any node means. A file may come from anybody: sizes are
//! checked before they are used, nesting and the number of messages are limited, and tensors in other files must lie in the
//! folder of the model.

mod external;
mod limits;
mod message;
pub mod proto;
mod read;
mod sink;
mod tensor;
mod write;

pub use external::Folder;
pub use prost::bytes::Bytes;
pub use read::{MappedFile, Source, parse, read_file};
pub use tensor::{Elements, decode, element_bits, element_name};
pub use write::{EXTERNAL_ABOVE, encode, write_file};
