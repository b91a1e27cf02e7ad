//! Why a layout of a KV cache was refused.

use std::fmt;

use thiserror::Error;

use super::{Dtype, GeometryError, NamespacePart, SliceAxis};

/// Names a dimension of a layout.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LayoutDim {
    /// Elements of K per head.
    Key,
    /// Elements of V per head.
    Value,
    /// Elements of the latent.
    Latent,
    /// Elements of the rotary part.
    Rope,
    /// Elements of an indexer's key.
    Indexer,
}

impl fmt::Display for LayoutDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayoutDim::Key => "key",
            LayoutDim::Value => "value",
            LayoutDim::Latent => "latent",
            LayoutDim::Rope => "rope",
            LayoutDim::Indexer => "indexer",
        })
    }
}

/// Says why a layout cannot exist, or why a slice is not part of a model.
///
/// Nothing is allocated or changed when one of these comes back.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// A dimension is zero.
    #[error("the {dim} dimension is 0 elements, the least is 1: give the model's own dimension")]
    ZeroDim {
        /// The dimension.
        dim: LayoutDim,
    },
    /// A row of elements does not end on a byte.
    #[error("{elements} {dim} elements of {dtype} end inside a byte: give an even number of elements")]
    PartialByte {
        /// The dimension.
        dim: LayoutDim,
        /// Its elements.
        elements: u32,
        /// Their number format.
        dtype: Dtype,
    },
    /// A block of 0 elements has a scale.
    #[error("the {dim} scales cover 0 elements each, the least is 1: give the elements that share a scale")]
    ZeroScaleBlock {
        /// The dimension.
        dim: LayoutDim,
    },
    /// The last scale of a row would cover fewer elements than the others.
    #[error(
        "{elements} {dim} elements are no multiple of a scale block of {block_elements}: give a block that divides them"
    )]
    UnevenScaleBlock {
        /// The dimension.
        dim: LayoutDim,
        /// Its elements.
        elements: u32,
        /// Elements that share a scale.
        block_elements: u32,
    },
    /// K and V shall share a plane, but their rows differ in size.
    #[error(
        "key rows of {key_bytes} + {key_scale_bytes} scale bytes and value rows of {value_bytes} + {value_scale_bytes} cannot share a plane: keep K and V apart"
    )]
    UnevenInterleave {
        /// Bytes of K per head and token.
        key_bytes: u64,
        /// Bytes of K's scales per head and token.
        key_scale_bytes: u64,
        /// Bytes of V per head and token.
        value_bytes: u64,
        /// Bytes of V's scales per head and token.
        value_scale_bytes: u64,
    },
    /// A plane would have more runs per token than the limit.
    #[error("a plane of {runs} runs per token was asked for, the limit is {max_runs}: share fewer layers or heads")]
    TooManyRuns {
        /// Runs that were asked for.
        runs: u128,
        /// Most runs of a plane.
        max_runs: u32,
    },
    /// A run would be larger than the limit.
    #[error("a run of {run_bytes} bytes was asked for, the limit is {max_run_bytes}: use fewer heads or elements")]
    RunTooLarge {
        /// Bytes of one run that were asked for.
        run_bytes: u128,
        /// Most bytes of a run.
        max_run_bytes: u32,
    },
    /// A range is empty or runs backward.
    #[error("{axis} {start}..{end} hold nothing: give a range that ends after it starts")]
    EmptyRange {
        /// What was cut.
        axis: SliceAxis,
        /// First of the range.
        start: u32,
        /// One past the last.
        end: u32,
    },
    /// A range reaches past the model.
    #[error("{axis} {start}..{end} were asked for, the model has {count}: give a range inside 0..{count}")]
    OutsideModel {
        /// What was cut.
        axis: SliceAxis,
        /// First of the range.
        start: u32,
        /// One past the last.
        end: u32,
        /// How many the model has.
        count: u32,
    },
    /// A range reaches past the slice in which it shall lie.
    #[error(
        "{axis} {start}..{end} were asked for, the slice has {of_start}..{of_end}: give a range inside {of_start}..{of_end}"
    )]
    OutsideSlice {
        /// What was cut.
        axis: SliceAxis,
        /// First of the range.
        start: u32,
        /// One past the last.
        end: u32,
        /// First that the slice has.
        of_start: u32,
        /// One past the last that the slice has.
        of_end: u32,
    },
    /// A model's layout is itself a slice.
    #[error(
        "a model's layout begins with layer 0 and head 0, this one with layer {first_layer} and head {first_head}: give the whole model here and cut it by a slice"
    )]
    NotWhole {
        /// First layer of the layout given.
        first_layer: u32,
        /// First head of the layout given.
        first_head: u32,
    },
    /// The model or the revision has no name.
    #[error("the {part} is an empty string, the least is 1 byte: name it, or two models pass for one")]
    EmptyName {
        /// Which of the two.
        part: NamespacePart,
    },
    /// The model or the revision has too long a name.
    #[error("the {part} is {name_bytes} bytes long, the limit is {max_name_bytes}: shorten it or give its digest")]
    NameTooLong {
        /// Which of the two.
        part: NamespacePart,
        /// Bytes that were given.
        name_bytes: usize,
        /// Most bytes of a name.
        max_name_bytes: usize,
    },
    /// The planes that follow from the layout make no page.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}
