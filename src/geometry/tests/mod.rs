//! White-box tests of shapes, layouts, slices and fingerprints.

mod fingerprint;
mod kv_layout;
mod page;
mod refusal;
mod slice;
pub(crate) mod window;

use super::*;

fn page(page_tokens: u32, planes: &[(u32, u32)]) -> Result<PageGeometry, GeometryError> {
    let planes: Vec<_> = planes.iter().map(|&(runs, bytes)| Plane::per_token(runs, bytes)).collect();
    PageGeometry::new(page_tokens, &planes)
}

fn plain(dtype: Dtype) -> ElementFormat {
    ElementFormat::plain(dtype)
}

fn llama() -> ModelLayout {
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    ModelLayout::new("llama-3-70b", "r1", KvLayout::new(16, 80, cache)).expect("valid")
}
