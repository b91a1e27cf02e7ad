//! Equal sizes with another meaning, and every field that makes one.

use proptest::prelude::*;

use super::*;
use crate::geometry::fingerprint::{Domain, Encoder};

#[test]
fn shapes_differ_in_any_of_their_fields_and_in_the_order_of_planes() {
    // C10: the same bytes per page each time
    let all = [
        page(4, &[(2, 8), (1, 16)]),
        page(4, &[(1, 16), (2, 8)]),
        page(4, &[(1, 16), (1, 16)]),
        page(4, &[(1, 32)]),
        page(4, &[(32, 1)]),
        page(8, &[(1, 16)]),
        page(2, &[(1, 64)]),
    ]
    .map(|shape| shape.expect("valid"));
    for (i, a) in all.iter().enumerate() {
        assert_eq!(a.total_page_bytes(), 128);
        for b in all.iter().skip(i + 1) {
            assert_ne!(a, b);
            assert_ne!(a.fingerprint(), b.fingerprint());
        }
    }
}

#[test]
fn equal_page_bytes_in_another_head_order_are_another_layout() {
    // C10, B27
    let cache = HeadCache::new(4, 64, plain(Dtype::F16));
    let token_major = KvLayout::new(16, 2, cache.clone());
    let head_major = KvLayout::new(16, 2, cache.with_order(HeadOrder::Hnd));
    let bytes = |layout: &KvLayout| layout.geometry().map(|g| g.total_page_bytes());
    assert_eq!(bytes(&token_major), bytes(&head_major));
    assert_ne!(token_major, head_major);
    assert_ne!(token_major.fingerprint(), head_major.fingerprint());
}

#[test]
fn equal_layout_with_other_heads_is_another_slice() {
    // C10, B27
    let model = llama();
    let low = Slice::new(0..80, 0..2).expect("valid");
    let high = Slice::new(0..80, 2..4).expect("valid");
    assert_eq!(model.geometry(&low), model.geometry(&high), "the sizes cannot tell them apart");
    assert_ne!(low, high);
    assert_ne!(low.fingerprint(), high.fingerprint());
    assert_ne!(model.slice_fingerprint(&low), model.slice_fingerprint(&high));
    assert_ne!(model.kv_layout(&low), model.kv_layout(&high));
    let prints = [&low, &high].map(|slice| model.kv_layout(slice).map(|layout| layout.fingerprint()));
    assert_ne!(prints[0], prints[1]);
}

#[test]
fn other_page_tokens_are_another_layout() {
    // C10, B26
    let cache = HeadCache::new(8, 128, plain(Dtype::Bf16));
    let prints = [16, 24, 32].map(|page_tokens| {
        let layout = KvLayout::new(page_tokens, 80, cache.clone());
        ModelLayout::new("m", "r", layout).expect("valid").fingerprint()
    });
    assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
}

#[test]
fn formats_of_equal_width_are_different_layouts() {
    // C10
    let print = |dtype| KvLayout::new(16, 2, HeadCache::new(4, 64, plain(dtype))).fingerprint();
    for (i, &a) in Dtype::ALL.iter().enumerate() {
        assert!(Dtype::ALL.iter().skip(i + 1).all(|&b| print(a) != print(b)), "{a}");
    }
}

#[test]
fn names_cannot_shift_between_model_and_revision() {
    let print = |model, revision| ModelLayout::new(model, revision, llama().whole().clone()).map(|m| m.fingerprint());
    assert_ne!(print("ab", "c"), print("a", "bc"));
}

#[test]
fn kinds_of_fingerprint_never_share_an_encoding() {
    let encode = |domain| Encoder::new(domain).u32(7).finish();
    let all = [Domain::PageGeometry, Domain::KvLayout, Domain::ModelLayout, Domain::Slice, Domain::ModelSlice];
    let prints: std::collections::HashSet<_> = all.into_iter().map(encode).collect();
    assert_eq!(prints.len(), all.len());
}

#[test]
fn encoding_is_the_same_on_every_machine_and_in_every_build() {
    // a new value here is a new encoding: raise its version
    let cache = HeadCache::new(3, 64, ElementFormat::mxfp4());
    let model = ModelLayout::new("m", "r", KvLayout::new(16, 30, cache)).expect("valid");
    let slice = Slice::new(0..30, 1..3).expect("valid");
    let shape = page(16, &[(1, 8), (2, 4)]).expect("valid");
    let prints = [
        shape.fingerprint(),
        model.whole().fingerprint(),
        model.fingerprint(),
        slice.fingerprint(),
        model.slice_fingerprint(&slice).expect("valid"),
    ];
    let pinned = [
        "a086e79b060f6ace5651ba9de060a940",
        "e9d066199ab71a4416f780ed370c4f74",
        "028fec5b77e59131e1fc92c6d7f53142",
        "6e98b24c5bc5039dc09f412f9e71ccec",
        "2c764a49841311154c2f10b017a10840",
    ];
    assert_eq!(prints.map(|print| print.to_string()), pinned);
}

#[test]
fn encoding_is_little_endian_with_lengths_before_text() {
    let mut bytes = 15_u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"pagestamp.slice");
    for number in [1_u32, 5, 30, 1, 3] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let print = twox_hash::XxHash3_128::oneshot(&bytes).to_be_bytes();
    let slice = Slice::new(5..30, 1..3).expect("valid");
    assert_eq!(slice.fingerprint(), Fingerprint::from_bytes(print));
}

#[test]
fn fingerprint_travels_as_it_prints() {
    let print = llama().fingerprint();
    let hex: String = print.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, print.to_string());
    assert_eq!(format!("{print:?}"), format!("Fingerprint({hex})"));
    assert_eq!(Fingerprint::from_bytes(print.to_bytes()), print);
}

/// Everything that a model layout and a slice are made of, in the open.
#[derive(Clone, Debug)]
struct Parts {
    model: String,
    revision: String,
    page_tokens: u32,
    layers: u32,
    layer_planes: LayerPlanes,
    cache: CacheParts,
    slice: [u32; 4],
}

#[derive(Clone, Debug)]
enum CacheParts {
    Heads(HeadParts),
    Latent(LatentParts),
}

#[derive(Clone, Debug)]
struct HeadParts {
    heads: u32,
    key_dim: u32,
    value_dim: u32,
    key_format: ElementFormat,
    value_format: ElementFormat,
    order: HeadOrder,
    interleave: Interleave,
}

#[derive(Clone, Debug)]
struct LatentParts {
    latent_dim: u32,
    rope_dim: u32,
    format: ElementFormat,
    rope_dtype: Dtype,
    packing: LatentPacking,
    indexer: Option<(u32, ElementFormat)>,
}

/// The same with one field changed, and that field's name.
type Neighbours<T> = Vec<(&'static str, T)>;

/// A copy of `$from` for each line, with the fields of that line changed.
macro_rules! neighbours {
    ($from:ident: $($name:literal => { $($change:tt)* })*) => {
        vec![$(($name, Self { $($change)*, ..$from.clone() })),*]
    };
}

impl HeadParts {
    fn build(&self) -> HeadCache {
        HeadCache::new(self.heads, self.key_dim, self.key_format)
            .with_value_dim(self.value_dim)
            .with_value_format(self.value_format)
            .with_order(self.order)
            .with_interleave(self.interleave)
    }

    fn neighbours(&self) -> Neighbours<Self> {
        let order = match self.order {
            HeadOrder::Nhd => HeadOrder::Hnd,
            HeadOrder::Hnd => HeadOrder::Nhd,
        };
        let interleave = match self.interleave {
            Interleave::Apart => Interleave::Together,
            Interleave::Together => Interleave::Apart,
        };
        let mut all = neighbours![self:
            "heads" => { heads: self.heads + 1 }
            "key dim" => { key_dim: self.key_dim * 2 }
            "value dim" => { value_dim: self.value_dim * 2 }
            "order" => { order }
            "interleave" => { interleave }
        ];
        for (name, key_format) in other_formats(self.key_format) {
            all.extend(neighbours![self: "key format" => { key_format }]);
            all.push((name, Self { value_format: key_format, ..self.clone() }));
        }
        all
    }
}

impl LatentParts {
    fn build(&self) -> LatentCache {
        let cache = LatentCache::new(self.latent_dim, self.rope_dim, self.format)
            .with_rope_dtype(self.rope_dtype)
            .with_packing(self.packing);
        match self.indexer {
            None => cache,
            Some((dim, format)) => cache.with_indexer(dim, format),
        }
    }

    fn neighbours(&self) -> Neighbours<Self> {
        let packing = match self.packing {
            LatentPacking::Together => LatentPacking::Apart,
            LatentPacking::Apart => LatentPacking::Together,
        };
        let mut all = neighbours![self:
            "latent dim" => { latent_dim: self.latent_dim * 2 }
            "rope dim" => { rope_dim: self.rope_dim * 2 }
            "packing" => { packing }
        ];
        for &rope_dtype in Dtype::ALL.iter().filter(|&&dtype| dtype != self.rope_dtype) {
            all.extend(neighbours![self: "rope dtype" => { rope_dtype }]);
        }
        for (name, format) in other_formats(self.format) {
            all.push((name, Self { format, ..self.clone() }));
        }
        match self.indexer {
            None => all.extend(neighbours![self: "indexer added" => { indexer: Some((128, self.format)) }]),
            Some((dim, format)) => {
                all.extend(neighbours![self:
                    "indexer removed" => { indexer: None }
                    "indexer dim" => { indexer: Some((dim * 2, format)) }
                ]);
                for (name, format) in other_formats(format) {
                    let indexer = Some((dim, format));
                    all.push((name, Self { indexer, ..self.clone() }));
                }
            }
        }
        all
    }
}

impl Parts {
    fn build(&self) -> (ModelLayout, Slice) {
        let cache = match &self.cache {
            CacheParts::Heads(parts) => LayerCache::from(parts.build()),
            CacheParts::Latent(parts) => LayerCache::from(parts.build()),
        };
        let whole = KvLayout::new(self.page_tokens, self.layers, cache).with_layer_planes(self.layer_planes);
        let model = ModelLayout::new(&self.model, &self.revision, whole).expect("valid parts");
        let [first_layer, end_layer, first_head, end_head] = self.slice;
        let slice = Slice::new(first_layer..end_layer, first_head..end_head).expect("valid parts");
        (model, slice)
    }

    fn neighbours(&self) -> Neighbours<Self> {
        let layer_planes = match self.layer_planes {
            LayerPlanes::PerLayer => LayerPlanes::Shared,
            LayerPlanes::Shared => LayerPlanes::PerLayer,
        };
        let [first_layer, end_layer, first_head, end_head] = self.slice;
        let mut all = neighbours![self:
            "model" => { model: format!("{}x", self.model) }
            "revision" => { revision: format!("{}x", self.revision) }
            "page tokens" => { page_tokens: self.page_tokens + 1 }
            "layers" => { layers: self.layers + 1 }
            "layer planes" => { layer_planes }
            "first layer" => { slice: [first_layer + 1, end_layer, first_head, end_head] }
            "end layer" => { slice: [first_layer, end_layer - 1, first_head, end_head] }
        ];
        let caches: Neighbours<CacheParts> = match &self.cache {
            CacheParts::Heads(parts) => {
                all.extend(neighbours![self:
                    "first head" => { slice: [first_layer, end_layer, first_head + 1, end_head] }
                    "end head" => { slice: [first_layer, end_layer, first_head, end_head - 1] }
                ]);
                let all = parts.neighbours().into_iter();
                all.map(|(name, parts)| (name, CacheParts::Heads(parts))).collect()
            }
            CacheParts::Latent(parts) => {
                let all = parts.neighbours().into_iter();
                all.map(|(name, parts)| (name, CacheParts::Latent(parts))).collect()
            }
        };
        all.extend(caches.into_iter().map(|(name, cache)| (name, Self { cache, ..self.clone() })));
        all
    }
}

/// All formats that differ from one in a single field.
fn other_formats(format: ElementFormat) -> Neighbours<ElementFormat> {
    let mut all = Vec::new();
    for &dtype in Dtype::ALL.iter().filter(|&&dtype| dtype != format.dtype()) {
        all.push((
            "dtype",
            match format.scales() {
                None => ElementFormat::plain(dtype),
                Some(scales) => ElementFormat::scaled(dtype, scales),
            },
        ));
    }
    match format.scales() {
        None => all.push(("scales added", ElementFormat::scaled(format.dtype(), Scales::every(32, ScaleDtype::F32)))),
        Some(scales) => {
            all.push(("scales removed", ElementFormat::plain(format.dtype())));
            let block = Scales::every(scales.block_elements() / 2, scales.dtype());
            all.push(("scale block", ElementFormat::scaled(format.dtype(), block)));
            for &dtype in ScaleDtype::ALL.iter().filter(|&&dtype| dtype != scales.dtype()) {
                let scales = Scales::every(scales.block_elements(), dtype);
                all.push(("scale dtype", ElementFormat::scaled(format.dtype(), scales)));
            }
        }
    }
    all
}

fn any_format() -> impl Strategy<Value = ElementFormat> {
    let dtype = proptest::sample::select(Dtype::ALL);
    let scale = proptest::sample::select(ScaleDtype::ALL);
    let scales = proptest::option::of((proptest::sample::select(vec![16_u32, 32]), scale));
    (dtype, scales).prop_map(|(dtype, scales)| match scales {
        None => ElementFormat::plain(dtype),
        Some((block, scale)) => ElementFormat::scaled(dtype, Scales::every(block, scale)),
    })
}

fn any_cache() -> impl Strategy<Value = CacheParts> {
    let dim = || (1_u32..5).prop_map(|blocks| blocks * 64);
    // K and V alike and apart, so that each single change leaves a valid layout
    let heads = (4_u32..9, dim(), any_format(), any::<bool>()).prop_map(|(heads, dim, format, nhd)| {
        CacheParts::Heads(HeadParts {
            heads,
            key_dim: dim,
            value_dim: dim,
            key_format: format,
            value_format: format,
            order: if nhd { HeadOrder::Nhd } else { HeadOrder::Hnd },
            interleave: Interleave::Apart,
        })
    });
    let indexer = proptest::option::of((dim(), any_format()));
    let rope = proptest::sample::select(Dtype::ALL);
    let latent = (dim(), dim(), any_format(), rope, any::<bool>(), indexer).prop_map(
        |(latent_dim, rope_dim, format, rope_dtype, together, indexer)| {
            CacheParts::Latent(LatentParts {
                latent_dim,
                rope_dim,
                format,
                rope_dtype,
                packing: if together { LatentPacking::Together } else { LatentPacking::Apart },
                indexer,
            })
        },
    );
    prop_oneof![heads, latent]
}

fn any_parts() -> impl Strategy<Value = Parts> {
    ("[a-z]{1,8}", "[a-z]{1,8}", 1_u32..100, 4_u32..9, any::<bool>(), any_cache()).prop_map(
        |(model, revision, page_tokens, layers, per_layer, cache)| Parts {
            model,
            revision,
            page_tokens,
            layers,
            layer_planes: if per_layer { LayerPlanes::PerLayer } else { LayerPlanes::Shared },
            slice: match &cache {
                CacheParts::Heads(parts) => [0, layers, 0, parts.heads],
                CacheParts::Latent(_) => [0, layers, 0, 1],
            },
            cache,
        },
    )
}

proptest! {
    // C10, B26, B27
    #[test]
    fn any_single_field_changes_equality_and_fingerprint(parts in any_parts()) {
        let (model, slice) = parts.build();
        let print = model.slice_fingerprint(&slice);
        let local = model.kv_layout(&slice).expect("within");
        let again = parts.build();
        prop_assert_eq!(&again, &(model.clone(), slice.clone()));
        prop_assert_eq!(again.0.slice_fingerprint(&again.1), print.clone());
        for (name, neighbour) in parts.neighbours() {
            let (other_model, other_slice) = neighbour.build();
            prop_assert_ne!((&other_model, &other_slice), (&model, &slice), "{}", name);
            prop_assert_ne!(other_model.slice_fingerprint(&other_slice), print.clone(), "{}", name);
            // a change is in the model or in the slice, and its own fingerprint shows it
            prop_assert_eq!(other_model == model, other_model.fingerprint() == model.fingerprint(), "{}", name);
            prop_assert_eq!(other_slice == slice, other_slice.fingerprint() == slice.fingerprint(), "{}", name);
            let other_local = other_model.kv_layout(&other_slice).expect("within");
            prop_assert_eq!(other_local == local, other_local.fingerprint() == local.fingerprint(), "{}", name);
        }
    }
}
