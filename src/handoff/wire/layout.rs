//! A model's layout and slices of it, field by field; built anew by their own constructors, which check them.

use super::WireError;
use super::reader::MessageReader;
use super::writer::MessageWriter;
use crate::geometry::{ElementFormat, HeadCache, KvLayout, LatentCache, LayerCache, ModelLayout, Scales, Slice};

pub(super) fn put_slice(writer: &mut MessageWriter, slice: &Slice) {
    let (layers, heads) = (slice.layers(), slice.heads());
    writer.u32(layers.start).u32(layers.end).u32(heads.start).u32(heads.end);
}

pub(super) fn take_slice(reader: &mut MessageReader<'_>, field: &'static str) -> Result<Slice, WireError> {
    reader.layout(field, |reader| {
        let layers = reader.u32(field)?..reader.u32(field)?;
        let heads = reader.u32(field)?..reader.u32(field)?;
        Ok(Slice::new(layers, heads))
    })
}

pub(super) fn put_model(writer: &mut MessageWriter, model: &ModelLayout) {
    let whole = model.whole();
    writer.text(model.model()).text(model.revision());
    writer.u32(whole.page_tokens()).u32(model.layers()).code(whole.layer_planes()).u32(whole.cache().code());
    match whole.cache() {
        LayerCache::Heads(cache) => put_heads(writer, cache),
        LayerCache::Latent(cache) => put_latent(writer, cache),
    }
}

pub(super) fn take_model(reader: &mut MessageReader<'_>) -> Result<ModelLayout, WireError> {
    reader.layout("model", |reader| {
        let model = reader.text("model.name", ModelLayout::MAX_NAME_BYTES)?;
        let revision = reader.text("model.revision", ModelLayout::MAX_NAME_BYTES)?;
        let page_tokens = reader.u32("model.page_tokens")?;
        let layers = reader.u32("model.layers")?;
        let layer_planes = reader.code("model.layer_planes")?;
        let (field, offset) = ("model.cache", reader.offset());
        let cache = match reader.u32(field)? {
            LayerCache::HEADS => LayerCache::Heads(take_heads(reader)?),
            LayerCache::LATENT => LayerCache::Latent(take_latent(reader)?),
            code => {
                let (least, most) = (LayerCache::HEADS, LayerCache::LATENT);
                return Err(WireError::UnknownCode { field, offset, code, least, most });
            }
        };
        let whole = KvLayout::new(page_tokens, layers, cache).with_layer_planes(layer_planes);
        Ok(ModelLayout::new(model, revision, whole))
    })
}

/// The heads of a model's layout begin with 0, so that their number says them all.
fn put_heads(writer: &mut MessageWriter, cache: &HeadCache) {
    writer.u32(cache.heads().end).u32(cache.key_dim()).u32(cache.value_dim());
    put_format(writer, cache.key_format());
    put_format(writer, cache.value_format());
    writer.code(cache.order()).code(cache.interleave());
}

fn take_heads(reader: &mut MessageReader<'_>) -> Result<HeadCache, WireError> {
    let kv_heads = reader.u32("model.kv_heads")?;
    let (key_dim, value_dim) = (reader.u32("model.key_dim")?, reader.u32("model.value_dim")?);
    let key_format = take_format(reader, "model.key_format")?;
    let value_format = take_format(reader, "model.value_format")?;
    Ok(HeadCache::new(kv_heads, key_dim, key_format)
        .with_value_dim(value_dim)
        .with_value_format(value_format)
        .with_order(reader.code("model.order")?)
        .with_interleave(reader.code("model.interleave")?))
}

fn put_latent(writer: &mut MessageWriter, cache: &LatentCache) {
    writer.u32(cache.latent_dim()).u32(cache.rope_dim());
    put_format(writer, cache.latent_format());
    writer.code(cache.rope_dtype()).code(cache.packing());
    match cache.indexer() {
        None => {
            writer.u32(0).u32(0).u32(0).u32(0);
        }
        Some((dim, format)) => {
            writer.u32(dim);
            put_format(writer, format);
        }
    }
}

fn take_latent(reader: &mut MessageReader<'_>) -> Result<LatentCache, WireError> {
    let (latent_dim, rope_dim) = (reader.u32("model.latent_dim")?, reader.u32("model.rope_dim")?);
    let cache = LatentCache::new(latent_dim, rope_dim, take_format(reader, "model.latent_format")?)
        .with_rope_dtype(reader.code("model.rope_dtype")?)
        .with_packing(reader.code("model.packing")?);
    match reader.u32("model.indexer_dim")? {
        // no layout has an indexer of no elements
        0 => {
            (0..3).try_for_each(|_| reader.zero("model.indexer_format"))?;
            Ok(cache)
        }
        dim => Ok(cache.with_indexer(dim, take_format(reader, "model.indexer_format")?)),
    }
}

fn put_format(writer: &mut MessageWriter, format: ElementFormat) {
    writer.code(format.dtype());
    match format.scales() {
        None => writer.u32(0).u32(0),
        Some(scales) => writer.u32(scales.block_elements()).code(scales.dtype()),
    };
}

fn take_format(reader: &mut MessageReader<'_>, field: &'static str) -> Result<ElementFormat, WireError> {
    let dtype = reader.code(field)?;
    match reader.u32(field)? {
        // no layout has scales of no elements
        0 => {
            reader.zero(field)?;
            Ok(ElementFormat::plain(dtype))
        }
        block_elements => Ok(ElementFormat::scaled(dtype, Scales::every(block_elements, reader.code(field)?))),
    }
}
