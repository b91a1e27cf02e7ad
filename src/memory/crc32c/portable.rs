//! Eight bytes at a time through tables, for processors without an instruction for it.

use super::POLYNOMIAL;

/// `TABLES[n][byte]` is what `byte` leaves behind once `n` further bytes have passed.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[n - 1][byte];
            tables[n][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        n += 1;
    }
    tables
}

/// Adds bytes to a remainder.
pub(super) fn update(remainder: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    let by_word = words.iter().fold(remainder, |crc, word| {
        let passed = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        passed.iter().zip(TABLES.iter().rev()).fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)])
    });
    tail.iter().fold(by_word, |crc, byte| crc >> 8 ^ TABLES[0][((crc & 0xFF) as u8 ^ byte) as usize])
}
