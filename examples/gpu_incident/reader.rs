//! The engine's attention, `reader.cu`: it reads what a block table names and asks nobody.
#![expect(unsafe_code, reason = "loads and launches a kernel")]

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use crate::Failure;
use crate::engine::{CallError, Engine, Memory, judge};
use crate::prompt::{Answer, HEAD, PAGE_BYTES, PAGES, Prompt, TOKENS, queries};

const PTX: &str = concat!(include_str!("reader.ptx"), "\0");
const NAME: &CStr = c"gpu_incident_read";
/// Sequences of a batch.
pub(crate) const MAX_ROWS: usize = 2;
const ROW_BYTES: usize = TOKENS * HEAD * size_of::<f32>();

/// Where the pages lie: K of page i at `k + i * PAGE_BYTES`, V alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planes {
    pub(crate) k: u64,
    pub(crate) v: u64,
}

/// As `ReadArgs` in `reader.cu`.
#[repr(C)]
struct Arguments {
    k: u64,
    v: u64,
    queries: u64,
    table: u64,
    output: u64,
    row_cells: u32,
    tokens: u32,
}

/// A block table of the engine's on the device: a row of pages for each sequence.
pub(crate) struct BlockTable<'e> {
    cells: Memory<'e>,
    rows: usize,
}

impl BlockTable<'_> {
    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        self.cells.address()
    }
}

pub(crate) struct Reader<'e> {
    engine: &'e Engine,
    module: *mut c_void,
    kernel: *mut c_void,
    queries: Memory<'e>,
    output: Memory<'e>,
}

impl<'e> Reader<'e> {
    pub(crate) fn new(engine: &'e Engine) -> Result<Self, Failure> {
        let (asked, output) = (queries(), engine.allocate(MAX_ROWS * ROW_BYTES)?);
        let queries = engine.allocate(asked.len())?;
        // SAFETY: (1) the memory is new and has as many bytes.
        unsafe { engine.upload(queries.address(), &asked) }?;
        let mut module = null_mut();
        // SAFETY: the text ends with a zero; `module` is written and nothing else.
        let loaded = unsafe { (engine.functions.cuModuleLoadData)(&raw mut module, PTX.as_ptr().cast()) };
        judge("cuModuleLoadData", loaded)?;
        let mut reader = Self { engine, module, kernel: null_mut(), queries, output };
        // SAFETY: the module is live, the name ends with a zero; `kernel` is written and nothing else.
        let found = unsafe { (engine.functions.cuModuleGetFunction)(&raw mut reader.kernel, module, NAME.as_ptr()) };
        judge("cuModuleGetFunction", found)?;
        Ok(reader)
    }

    /// Puts a table on the device.
    pub(crate) fn table(&self, rows: &[[u32; PAGES]]) -> Result<BlockTable<'e>, CallError> {
        let bytes: Vec<u8> = rows.as_flattened().iter().flat_map(|page| page.to_le_bytes()).collect();
        let cells = self.engine.allocate(bytes.len())?;
        // SAFETY: (1) the memory is new and has as many bytes.
        unsafe { self.engine.upload(cells.address(), &bytes) }?;
        Ok(BlockTable { cells, rows: rows.len() })
    }

    /// Writes a page of a prompt into a page of the device: what a kernel of the engine, or prefill's network card, does.
    ///
    /// # Safety
    ///
    /// 1. There is such a page, and the caller may write it.
    pub(crate) unsafe fn store(
        &self,
        planes: Planes,
        page: u32,
        prompt: &Prompt,
        ordinal: usize,
    ) -> Result<(), CallError> {
        let [k, v] = prompt.page(ordinal);
        let offset = u64::from(page) * PAGE_BYTES as u64;
        // SAFETY: (1)
        unsafe { self.engine.upload(planes.k + offset, k) }?;
        // SAFETY: (1)
        unsafe { self.engine.upload(planes.v + offset, v) }
    }

    /// Attends over all tokens of every row of a table, on the engine's stream, and waits.
    ///
    /// # Safety
    ///
    /// 1. The pages that the table names are there; nobody writes them meanwhile.
    pub(crate) unsafe fn attend(&self, planes: Planes, table: &BlockTable<'_>) -> Result<Vec<Answer>, CallError> {
        let Planes { k, v } = planes;
        let (queries, output) = (self.queries.address(), self.output.address());
        let (table, rows) = (table.address(), table.rows.min(MAX_ROWS));
        let (row_cells, tokens) = (PAGES as u32, TOKENS as u32);
        let mut arguments = Arguments { k, v, queries, table, output, row_cells, tokens };
        let mut pointers = [(&raw mut arguments).cast()];
        // SAFETY: the kernel takes one struct, this one. It reads `rows` rows of the table, the pages they name, by (1), and
        // the queries, and writes as many rows of the output, which has room for `MAX_ROWS`.
        let launched = unsafe {
            (self.engine.functions.cuLaunchKernel)(
                self.kernel,
                rows as u32,
                tokens,
                1,
                HEAD as u32,
                1,
                1,
                0,
                self.engine.stream(),
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        judge("cuLaunchKernel", launched)?;
        let mut bytes = vec![0; rows * ROW_BYTES];
        // SAFETY: (1) the output has as many bytes, and on this stream the kernel is done with them.
        unsafe { self.engine.download(output, &mut bytes) }?;
        Ok(bytes.chunks_exact(ROW_BYTES).map(|row| Answer(row.to_vec())).collect())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // If the stream has failed, nothing of it runs any more.
        let _ = self.engine.finish();
        // SAFETY: loaded once, and no launch runs.
        unsafe { (self.engine.functions.cuModuleUnload)(self.module) };
    }
}
