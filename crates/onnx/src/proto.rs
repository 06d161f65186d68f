//! The messages of ONNX files: names and numbers of fields are those of the public schema.
//!
//! A field is `name: how kind = number`. Kinds are those of protocol buffers, or other messages; `packed` numbers lie in one
//! field. Deliberately absent: fields that say how a model was trained or placed on devices. A reader skips them.

use crate::message::message;
use prost::bytes::Bytes;

message! {
    ModelProto {
        ir_version: optional int64 [i64] = 1,
        producer_name: optional string [String] = 2,
        producer_version: optional string [String] = 3,
        domain: optional string [String] = 4,
        model_version: optional int64 [i64] = 5,
        doc_string: optional string [String] = 6,
        graph: optional message [GraphProto] = 7,
        opset_import: repeated message [OperatorSetIdProto] = 8,
        metadata_props: repeated message [StringStringEntryProto] = 14,
        functions: repeated message [FunctionProto] = 25,
    }
}

message! {
    OperatorSetIdProto {
        domain: optional string [String] = 1,
        version: optional int64 [i64] = 2,
    }
}

message! {
    StringStringEntryProto {
        key: optional string [String] = 1,
        value: optional string [String] = 2,
    }
}

message! {
    GraphProto {
        node: repeated message [NodeProto] = 1,
        name: optional string [String] = 2,
        initializer: repeated message [TensorProto] = 5,
        doc_string: optional string [String] = 10,
        input: repeated message [ValueInfoProto] = 11,
        output: repeated message [ValueInfoProto] = 12,
        value_info: repeated message [ValueInfoProto] = 13,
        sparse_initializer: repeated message [SparseTensorProto] = 15,
        metadata_props: repeated message [StringStringEntryProto] = 16,
    }
}

message! {
    NodeProto {
        input: repeated string [String] = 1,
        output: repeated string [String] = 2,
        name: optional string [String] = 3,
        op_type: optional string [String] = 4,
        attribute: repeated message [AttributeProto] = 5,
        doc_string: optional string [String] = 6,
        domain: optional string [String] = 7,
        overload: optional string [String] = 8,
        metadata_props: repeated message [StringStringEntryProto] = 9,
    }
}

message! {
    AttributeProto {
        name: optional string [String] = 1,
        f: optional float [f32] = 2,
        i: optional int64 [i64] = 3,
        s: optional bytes [Bytes] = 4,
        t: optional message [TensorProto] = 5,
        g: optional message [GraphProto] = 6,
        floats: repeated float [f32] = 7,
        ints: repeated int64 [i64] = 8,
        strings: repeated bytes [Bytes] = 9,
        tensors: repeated message [TensorProto] = 10,
        graphs: repeated message [GraphProto] = 11,
        doc_string: optional string [String] = 13,
        tp: optional message [TypeProto] = 14,
        type_protos: repeated message [TypeProto] = 15,
        r#type: optional int32 [i32] = 20,
        ref_attr_name: optional string [String] = 21,
        sparse_tensor: optional message [SparseTensorProto] = 22,
        sparse_tensors: repeated message [SparseTensorProto] = 23,
    }
}

message! {
    TensorProto {
        dims: repeated int64 [i64] = 1,
        data_type: optional int32 [i32] = 2,
        segment: optional message [Segment] = 3,
        float_data: packed float [f32] = 4,
        int32_data: packed int32 [i32] = 5,
        string_data: repeated bytes [Bytes] = 6,
        int64_data: packed int64 [i64] = 7,
        name: optional string [String] = 8,
        raw_data: optional bytes [Bytes] = 9,
        double_data: packed double [f64] = 10,
        uint64_data: packed uint64 [u64] = 11,
        doc_string: optional string [String] = 12,
        external_data: repeated message [StringStringEntryProto] = 13,
        data_location: optional int32 [i32] = 14,
    }
}

message! {
    Segment {
        begin: optional int64 [i64] = 1,
        end: optional int64 [i64] = 2,
    }
}

message! {
    SparseTensorProto {
        values: optional message [TensorProto] = 1,
        indices: optional message [TensorProto] = 2,
        dims: repeated int64 [i64] = 3,
    }
}

message! {
    ValueInfoProto {
        name: optional string [String] = 1,
        r#type: optional message [TypeProto] = 2,
        doc_string: optional string [String] = 3,
        metadata_props: repeated message [StringStringEntryProto] = 4,
    }
}

message! {
    TypeProto {
        tensor_type: optional message [TensorType] = 1,
        sequence_type: boxed message [ElementType] = 4,
        map_type: boxed message [MapType] = 5,
        denotation: optional string [String] = 6,
        sparse_tensor_type: optional message [TensorType] = 8,
        optional_type: boxed message [ElementType] = 9,
    }
}

message! {
    TensorType {
        elem_type: optional int32 [i32] = 1,
        shape: optional message [TensorShapeProto] = 2,
    }
}

message! {
    ElementType {
        elem_type: boxed message [TypeProto] = 1,
    }
}

message! {
    MapType {
        key_type: optional int32 [i32] = 1,
        value_type: boxed message [TypeProto] = 2,
    }
}

message! {
    TensorShapeProto {
        dim: repeated message [Dimension] = 1,
    }
}

message! {
    Dimension {
        dim_value: optional int64 [i64] = 1,
        dim_param: optional string [String] = 2,
        denotation: optional string [String] = 3,
    }
}

message! {
    FunctionProto {
        name: optional string [String] = 1,
        input: repeated string [String] = 4,
        output: repeated string [String] = 5,
        attribute: repeated string [String] = 6,
        node: repeated message [NodeProto] = 7,
        doc_string: optional string [String] = 8,
        opset_import: repeated message [OperatorSetIdProto] = 9,
        domain: optional string [String] = 10,
        attribute_proto: repeated message [AttributeProto] = 11,
        value_info: repeated message [ValueInfoProto] = 12,
        overload: optional string [String] = 13,
        metadata_props: repeated message [StringStringEntryProto] = 14,
    }
}
