//! Says what a page is made of: planes, bytes per token, layouts of KV cache, and their fingerprints.
//!
//! **Owns** every piece of unit arithmetic: tokens to pages, pages to bytes, a token's runs inside a page,
//! a slice's bytes inside a larger slice's page.
//! All of it is done in `u64` or `u128` and checked; none of it wraps or panics.
//!
//! **Does not know** pools, owners, generations, or where the memory lives.
//!
//! **Invariants** A [`PageGeometry`] that exists has at least one token and one plane, no plane is empty,
//! and one page of all its planes together is at most [`PageGeometry::MAX_PAGE_BYTES`].
//!
//! **Cost** Building and fingerprinting are O(planes); every other question is O(1).

mod dtype;
mod error;
mod fingerprint;
mod format;
mod head_cache;
mod kv_layout;
mod latent_cache;
mod layout_error;
mod model;
mod page;
mod plane;
mod plane_role;
mod slice;
#[cfg(test)]
pub(crate) mod tests;
mod window;

pub use dtype::{Dtype, ScaleDtype};
pub use error::GeometryError;
pub use fingerprint::Fingerprint;
pub use format::{ElementFormat, Scales};
pub use head_cache::{HeadCache, HeadOrder, Interleave};
pub use kv_layout::{KvLayout, LayerCache, LayerPlanes};
pub use latent_cache::{LatentCache, LatentPacking};
pub use layout_error::{LayoutDim, LayoutError};
pub use model::{ModelLayout, NamespacePart};
pub use page::PageGeometry;
pub use plane::Plane;
pub use plane_role::{PlaneKind, PlaneRole};
pub use slice::{Slice, SliceAxis};
pub use window::PlaneWindow;
