//! A model file of a random Llama of two layers, so that the example needs none.

/// Whole numbers of the file's header.
const SIZES: [(&str, u32); 8] = [
    ("llama.block_count", LAYERS as u32),
    ("llama.embedding_length", DIM as u32),
    ("llama.feed_forward_length", FFN_DIM as u32),
    ("llama.attention.head_count", 4),
    ("llama.attention.head_count_kv", 2),
    ("llama.rope.dimension_count", 16),
    ("llama.vocab_size", VOCAB as u32),
    ("llama.context_length", 512),
];
const LAYERS: usize = 2;
const DIM: usize = 64;
const KV_DIM: usize = 32;
const FFN_DIM: usize = 96;
/// Tokens of the model.
pub(crate) const VOCAB: usize = 96;

/// Numbers for kinds of value and of tensor, as the format has them.
const WHOLE: u32 = 4;
const FLOAT: u32 = 6;
const TEXT: u32 = 8;
const F32: u32 = 0;
const Q4_1: u32 = 3;
const Q8_0: u32 = 8;
const ALIGNMENT: usize = 32;

/// f16: 1/32 and -15/64, so that four bits are spread around zero; 1/512.
const Q4_SCALE: [u8; 2] = [0x00, 0x28];
const Q4_MIN: [u8; 2] = [0x80, 0xb3];
const Q8_SCALE: [u8; 2] = [0x00, 0x18];

/// SplitMix64: small, seeded, and good enough for weights and prompts.
#[derive(Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl Iterator for Seeded {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }
}

impl Seeded {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().map_or(0, |number| number as u8))
    }
}

/// The file: the same one for the same seed.
pub(crate) fn file(seed: u64) -> Vec<u8> {
    let mut random = Seeded(seed);
    let mut tensors = Tensors::default();
    tensors.matrix("token_embd.weight", Q8_0, VOCAB, DIM, &mut random);
    for layer in 0..LAYERS {
        let name = |name: &str| format!("blk.{layer}.{name}.weight");
        tensors.norm(&name("attn_norm"), &mut random);
        tensors.norm(&name("ffn_norm"), &mut random);
        for (matrix, rows, columns) in [
            ("attn_q", DIM, DIM),
            ("attn_k", KV_DIM, DIM),
            ("attn_v", KV_DIM, DIM),
            ("attn_output", DIM, DIM),
            ("ffn_gate", FFN_DIM, DIM),
            ("ffn_up", FFN_DIM, DIM),
            ("ffn_down", DIM, FFN_DIM),
        ] {
            tensors.matrix(&name(matrix), Q4_1, rows, columns, &mut random);
        }
    }
    tensors.norm("output_norm.weight", &mut random);

    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(tensors.count.to_le_bytes());
    file.extend((SIZES.len() as u64 + 3).to_le_bytes());
    text(&mut file, "general.architecture");
    file.extend(TEXT.to_le_bytes());
    text(&mut file, "llama");
    for (key, size) in SIZES {
        text(&mut file, key);
        file.extend([WHOLE, size].map(u32::to_le_bytes).concat());
    }
    for (key, float) in [("llama.rope.freq_base", 10_000.0_f32), ("llama.attention.layer_norm_rms_epsilon", 1e-5)] {
        text(&mut file, key);
        file.extend(FLOAT.to_le_bytes());
        file.extend(float.to_le_bytes());
    }
    file.extend(tensors.places);
    file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
    file.extend(tensors.data);
    file
}

/// Tensors of a file under construction.
#[derive(Debug, Default)]
struct Tensors {
    count: u64,
    places: Vec<u8>,
    data: Vec<u8>,
}

impl Tensors {
    fn place(&mut self, name: &str, kind: u32, dims: &[usize]) {
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self.count += 1;
        text(&mut self.places, name);
        self.places.extend((dims.len() as u32).to_le_bytes());
        self.places.extend(dims.iter().flat_map(|dim| (*dim as u64).to_le_bytes()));
        self.places.extend(kind.to_le_bytes());
        self.places.extend((self.data.len() as u64).to_le_bytes());
    }

    /// Weights near one.
    fn norm(&mut self, name: &str, random: &mut Seeded) {
        self.place(name, F32, &[DIM]);
        for [byte] in (0..DIM).map(|_| random.bytes()) {
            self.data.extend((0.8 + f32::from(byte) / 640.0).to_le_bytes());
        }
    }

    fn matrix(&mut self, name: &str, kind: u32, rows: usize, columns: usize, random: &mut Seeded) {
        self.place(name, kind, &[columns, rows]);
        for _ in 0..rows * columns / 32 {
            if kind == Q4_1 {
                self.data.extend([Q4_SCALE, Q4_MIN].concat());
                self.data.extend(random.bytes::<16>());
            } else {
                self.data.extend(Q8_SCALE);
                self.data.extend(random.bytes::<32>());
            }
        }
    }
}

fn text(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u64).to_le_bytes());
    file.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contiguous::Contiguous;
    use crate::gguf::Gguf;
    use crate::llama::Llama;

    #[test]
    fn the_same_seed_is_the_same_model_and_another_one_is_not() {
        let logits = |seed| {
            let model = Llama::read(&Gguf::parse(file(seed)).expect("a file")).expect("a model");
            let Ok(logits) = model.forward(&mut Contiguous::new(model.shape()), 0, &[1, 2, 3]);
            logits
        };
        assert_eq!(logits(5), logits(5));
        assert_ne!(logits(5), logits(6));
        assert!(logits(5).iter().all(|logit| logit.is_finite()));
    }
}
