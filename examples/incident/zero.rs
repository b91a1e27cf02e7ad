//! The last layer: whatever an engine does with addresses, the bytes are gone.
#![expect(unsafe_code, reason = "looks at released pages by their addresses, past every check")]

use std::error::Error;

use pagestamp::memory::HostBytes;
use pagestamp::{HostMemory, PageHandle};

use crate::checked::{Layer, LayerName, Scene};
use crate::contiguous::Contiguous;
use crate::kv_cache::{KvCache, KvStep, PAGE_TOKENS, load_floats};
use crate::pooled::Pages;
use crate::prompts::{ANSWER_TOKENS, CLAIM_TOKENS};
use crate::report::grouped;

/// Releases tenant A's pages, looks at them through their addresses, and lets the model attend over what is there.
pub(crate) fn layer(
    scene: &Scene<'_>,
    pages: Pages,
    handles: &[PageHandle<HostMemory>],
) -> Result<Layer, Box<dyn Error>> {
    let before = raw_bytes(scene, handles);
    if before.iter().flatten().all(|byte| *byte == 0) {
        return Err("A's pages were empty: the layer was not put to the test".into());
    }
    pages.release();
    let after = raw_bytes(scene, handles);
    let left = after.iter().flatten().filter(|byte| **byte != 0).count();
    let leaked = answer_from(scene, &after)?.contains(scene.secret);
    if leaked && left == 0 {
        return Err("the model says this secret by itself, over zeros: it shows nothing; take another one".into());
    }
    let bytes: usize = after.iter().map(Vec::len).sum();
    let error = format!("{} of {} bytes of {} released pages are left", grouped(left), grouped(bytes), handles.len());
    Ok(Layer::new(LayerName::Zero, left == 0 && !leaked, error))
}

/// The bytes of pages, plane by plane, whoever they belong to.
fn raw_bytes(scene: &Scene<'_>, handles: &[PageHandle<HostMemory>]) -> Vec<Vec<u8>> {
    // SAFETY: (1), (2) of `PagePool::memory`: this thread alone uses the pool, so nobody writes; the bytes are compared with
    // zero and shown to the model of this example, whose tenants are both here.
    let memory = unsafe { scene.decode.memory() };
    let planes = (0..scene.decode.geometry().planes().len()).filter_map(|plane| memory.plane(plane));
    let page_bytes = |plane: pagestamp::memory::HostPlane, page: u32| {
        // SAFETY: `HostBytes` (2): valid for `page_bytes`; nobody writes, as above, and the bytes are copied at once.
        unsafe { std::slice::from_raw_parts(plane.page(page), plane.page_bytes()) }.to_vec()
    };
    planes.map(|plane| handles.iter().flat_map(|handle| page_bytes(plane, handle.index())).collect()).collect()
}

/// What the model says when it attends over these bytes from the end of B's claim on.
fn answer_from(scene: &Scene<'_>, planes: &[Vec<u8>]) -> Result<String, Box<dyn Error>> {
    let shape = scene.model.shape();
    let mut cache = Contiguous::new(shape);
    let floats = |plane: &Vec<u8>| {
        let mut floats = vec![0.0; CLAIM_TOKENS * shape.kv_dim()];
        load_floats(&mut floats, plane);
        floats
    };
    let step = cache.step(0, CLAIM_TOKENS)?;
    for (layer, halves) in planes.chunks_exact(2).enumerate() {
        step.put(layer, 0, &floats(&halves[0]), &floats(&halves[1]))?;
    }
    debug_assert_eq!(CLAIM_TOKENS % PAGE_TOKENS, 0);
    let logits = scene.model.forward(&mut cache.clone(), CLAIM_TOKENS, &[scene.placeholder])?;
    let tokens = scene.model.decode(&mut cache, CLAIM_TOKENS, logits, ANSWER_TOKENS, scene.tokenizer.stop())?;
    Ok(scene.tokenizer.decode(&tokens))
}
