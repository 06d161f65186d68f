//! One declaration of a message: the struct, and how `prost` reads and writes its fields.
//!
//! `prost`'s own derive macro would do the same; this needs no procedural macro.

/// `Name { field: optional string [String] = 1, ... }`
macro_rules! message {
    ($name:ident { $($field:ident: $how:ident $kind:ident [$ty:ty] = $tag:literal,)* }) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(pub $field: $crate::message::field_type!($how $ty),)*
        }

        impl prost::Message for $name {
            fn encode_raw(&self, buf: &mut impl prost::bytes::BufMut) {
                $($crate::message::encode_field!($how $kind, $tag, &self.$field, buf);)*
            }
            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: prost::encoding::WireType,
                buf: &mut impl prost::bytes::Buf,
                ctx: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                match tag {
                    $($tag => $crate::message::merge_field!($how $kind, wire_type, &mut self.$field, buf, ctx),)*
                    _ => prost::encoding::skip_field(wire_type, tag, buf, ctx),
                }
            }
            fn encoded_len(&self) -> usize {
                0 $(+ $crate::message::field_len!($how $kind, $tag, &self.$field))*
            }
            fn clear(&mut self) {
                *self = Self::default();
            }
        }
    };
}

macro_rules! field_type {
    (optional $ty:ty) => { Option<$ty> };
    (boxed $ty:ty) => { Option<Box<$ty>> };
    (repeated $ty:ty) => { Vec<$ty> };
    (packed $ty:ty) => { Vec<$ty> };
}

macro_rules! encode_field {
    (repeated $kind:ident, $tag:literal, $field:expr, $buf:expr) => {
        $crate::message::encode_repeated!($kind, $tag, $field, $buf)
    };
    (packed $kind:ident, $tag:literal, $field:expr, $buf:expr) => {
        prost::encoding::$kind::encode_packed($tag, $field, $buf)
    };
    ($how:ident $kind:ident, $tag:literal, $field:expr, $buf:expr) => {
        if let Some(value) = $field {
            prost::encoding::$kind::encode($tag, value, $buf)
        }
    };
}

macro_rules! encode_repeated {
    (message, $tag:literal, $field:expr, $buf:expr) => {
        for value in $field {
            prost::encoding::message::encode($tag, value, $buf);
        }
    };
    ($kind:ident, $tag:literal, $field:expr, $buf:expr) => {
        prost::encoding::$kind::encode_repeated($tag, $field, $buf)
    };
}

macro_rules! merge_field {
    (repeated $kind:ident, $wire:expr, $field:expr, $buf:expr, $ctx:expr) => {
        prost::encoding::$kind::merge_repeated($wire, $field, $buf, $ctx)
    };
    (packed $kind:ident, $wire:expr, $field:expr, $buf:expr, $ctx:expr) => {
        prost::encoding::$kind::merge_repeated($wire, $field, $buf, $ctx)
    };
    ($how:ident $kind:ident, $wire:expr, $field:expr, $buf:expr, $ctx:expr) => {
        prost::encoding::$kind::merge($wire, $field.get_or_insert_with(Default::default), $buf, $ctx)
    };
}

macro_rules! field_len {
    (repeated $kind:ident, $tag:literal, $field:expr) => {
        prost::encoding::$kind::encoded_len_repeated($tag, $field)
    };
    (packed $kind:ident, $tag:literal, $field:expr) => {
        prost::encoding::$kind::encoded_len_packed($tag, $field)
    };
    ($how:ident $kind:ident, $tag:literal, $field:expr) => {
        $field.as_ref().map_or(0, |value| prost::encoding::$kind::encoded_len($tag, value))
    };
}

pub(crate) use {encode_field, encode_repeated, field_len, field_type, merge_field, message};
