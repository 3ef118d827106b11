//! A kernel for CPUs of `aten::_flash_attention_forward`, registered with torch's own dispatcher, which unpacks our
//! arguments for it. It demands what torch's kernel for GPUs demands (`mha_varlen_fwd` in
//! `ATen/native/transformers/cuda/flash_attn/flash_api.cpp`), computes each row by plain operators in float32, and
//! gives tokens of no row NaN. One test at a time has a mode and counts calls, which come from any thread.

use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use pullquote_core::encoder::cpu_device::panic_message;
use tch::{Device, Kind, Tensor};

/// What the kernel does.
#[allow(dead_code, reason = "each test uses a part of this")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KernelMode {
    Right,
    /// Fails once, then is right.
    FailsOnce,
    Fails,
    /// Divides scores by the root of the head's width, as without a scale.
    DefaultScale,
    /// Each token attends only to those before it.
    Causal,
    /// All rows are one row.
    Joined,
    /// Each row begins a token late.
    Late,
    /// Only the first 128 tokens of a row are attended to.
    OneBlock,
    /// Results are a twentieth too large.
    Inexact,
    Nan,
    /// Right, and returns large unused results, so that a leak shows.
    Heavy,
}

static MODE: Mutex<KernelMode> = Mutex::new(KernelMode::Right);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static ONE_TEST: Mutex<()> = Mutex::new(());

/// Whether it takes float32 too, which torch's kernel does not.
static ANY_TYPE: AtomicBool = AtomicBool::new(false);

/// What was wrong with calls, on all threads.
static VIOLATIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets the mode of later calls.
pub fn set_mode(mode: KernelMode) {
    *MODE.lock().unwrap_or_else(PoisonError::into_inner) = mode;
}

#[allow(dead_code, reason = "one test uses it")]
/// Takes float32 too, in this process: so that layouts can be compared without the rounding of half precision.
pub fn take_any_type() {
    ANY_TYPE.store(true, Ordering::SeqCst);
}

/// The calls since the last `calls()`.
pub fn calls() -> usize {
    CALLS.swap(0, Ordering::SeqCst)
}

/// Fails where a call was not as torch's kernel demands.
pub fn assert_no_violations() {
    let violations = VIOLATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(violations.is_empty(), "{violations:?}");
}

unsafe extern "C" {
    fn aoti_torch_library_init_impl(
        namespace: *const c_char,
        key: *const c_char,
        file: *const c_char,
        line: u32,
        library: *mut *mut c_void,
    ) -> i32;
    fn torch_library_impl(
        library: *mut c_void,
        name: *const c_char,
        kernel: unsafe extern "C-unwind" fn(*mut u64, u64, u64),
        built: u64,
    ) -> i32;
    // C++'s `operator delete(void *)`.
    #[link_name = "_ZdlPv"]
    fn delete(place: *mut c_void);
}

unsafe extern "C-unwind" {
    // How kernels fail: `std::__throw_runtime_error(const char *)`, which torch catches.
    #[link_name = "_ZSt21__throw_runtime_errorPKc"]
    fn throw(text: *const c_char) -> !;
}

/// Registers the kernel, once, for good. It is the test's until this is dropped.
pub fn register() -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    let test = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    set_mode(KernelMode::Right);
    calls();
    ONCE.call_once(|| {
        let mut library = std::ptr::null_mut();
        // SAFETY: texts end in NUL; the library is never freed, and so is the kernel's registration.
        unsafe {
            let made =
                aoti_torch_library_init_impl(c"aten".as_ptr(), c"CPU".as_ptr(), c"".as_ptr(), 0, &raw mut library);
            assert_eq!(made, 0, "torch makes a library");
            let built = (2 << 56) | (11 << 48);
            let registered = torch_library_impl(library, c"_flash_attention_forward".as_ptr(), kernel, built);
            assert_eq!(registered, 0, "torch takes the kernel");
        }
    });
    test
}

/// # Safety
/// torch calls it, with as many words as the schema has arguments.
unsafe extern "C-unwind" fn kernel(words: *mut u64, arguments: u64, results: u64) {
    let attended = catch_unwind(AssertUnwindSafe(|| {
        assert_eq!((arguments, results), (15, 5));
        // SAFETY: the array has this number of words, and we own them.
        let call = unsafe { Call::take(std::slice::from_raw_parts(words, 15)) };
        CALLS.fetch_add(1, Ordering::SeqCst);
        call.check();
        let mode = *MODE.lock().unwrap_or_else(PoisonError::into_inner);
        call.attend(mode)
    }));
    // A panic must not get into C++, which may not end it.
    let attended = attended.unwrap_or_else(|panic| {
        let violation = panic_message(&*panic);
        VIOLATIONS.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
        None
    });
    match attended {
        Some(results) => {
            for (index, result) in results.into_iter().enumerate() {
                let word = ManuallyDrop::new(result).as_mut_ptr().expose_provenance() as u64;
                // SAFETY: there are 15 words; results replace the first; torch takes them over.
                unsafe { words.add(index).write(word) };
            }
        }
        // SAFETY: nothing here waits to be dropped; torch catches it.
        None => unsafe { throw(c"the kernel fails in this mode".as_ptr()) },
    }
}

/// The arguments of a call.
struct Call {
    /// Queries, keys and values, `[tokens, heads, width]`.
    parts: [Tensor; 3],
    cumulative_lengths: [Option<Tensor>; 2],
    longest: [i64; 2],
    dropout: f64,
    /// `is_causal` and `return_debug_mask`.
    flags: [u64; 2],
    scale: Option<f64>,
    windows: [Option<i64>; 2],
    used_keys: Option<Tensor>,
    biases: Option<Tensor>,
}

impl Call {
    /// # Safety
    /// The words must be arguments of the schema, which the caller gives up.
    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: the words are of these types; whatever they own is taken once.
        unsafe {
            let present = |index: usize| optional(words[index]).map(|word| tensor(word));
            Self {
                parts: [tensor(words[0]), tensor(words[1]), tensor(words[2])],
                cumulative_lengths: [present(3), present(4)],
                longest: [words[5].cast_signed(), words[6].cast_signed()],
                dropout: f64::from_bits(words[7]),
                flags: [words[8] & 0xff, words[9] & 0xff],
                scale: optional(words[10]).map(f64::from_bits),
                windows: [optional(words[11]), optional(words[12])].map(|window| window.map(u64::cast_signed)),
                used_keys: present(13),
                biases: present(14),
            }
        }
    }

    /// Checks what torch's kernel checks, and what it relies on.
    fn check(&self) {
        let [queries, keys, values] = &self.parts;
        let (tokens, heads, width) = queries.size3().expect("queries have three dimensions");
        let (_, key_heads, _) = keys.size3().expect("keys have three dimensions");
        assert!(heads % key_heads == 0, "{heads} heads, {key_heads} of keys");
        for (part, heads) in [(queries, heads), (keys, key_heads), (values, key_heads)] {
            let is_half = matches!(part.kind(), Kind::Half | Kind::BFloat16);
            assert!(is_half || ANY_TYPE.load(Ordering::SeqCst), "{:?}", part.kind());
            assert_eq!((part.kind(), part.size()), (queries.kind(), vec![tokens, heads, width]));
            let strides = part.stride();
            assert_eq!(strides[2], 1, "the last dimension is dense");
            // The kernel reads 16 bytes at once.
            assert!(strides[0] % 8 == 0 && strides[1] % 8 == 0 && part.data_ptr().addr() % 16 == 0, "{strides:?}");
        }
        assert!(width % 8 == 0 && width <= 256);
        for lengths in &self.cumulative_lengths {
            let lengths = lengths.as_ref().expect("they are given");
            assert_eq!((lengths.kind(), lengths.dim()), (Kind::Int, 1));
            assert!(lengths.is_contiguous());
        }
        let [ends, of_keys] = [self.ends(0), self.ends(1)];
        assert_eq!(ends, of_keys);
        assert!(ends.len() > 1 && ends[0] == 0 && ends.is_sorted() && ends[ends.len() - 1] <= tokens, "{ends:?}");
        let longest = ends.windows(2).map(|ends| ends[1] - ends[0]).max();
        // A CUDA graph's rows are no longer than this, and may be shorter.
        assert!(self.longest.iter().all(|most| Some(*most) >= longest), "{:?} {longest:?}", self.longest);
        assert_eq!((self.dropout, self.flags[1], self.scale), (0.0, 0, Some(1.0)));
        assert!(self.used_keys.is_none() && self.biases.is_none());
        let [before, after] = self.windows;
        assert!(before.is_some() == after.is_some() && (self.flags[0] == 0 || after.is_none_or(|after| after == 0)));
        assert_eq!(ends[ends.len() - 1], tokens, "every token is in a row, so that every output is written");
    }

    fn ends(&self, of: usize) -> Vec<i64> {
        let lengths = self.cumulative_lengths[of].as_ref().expect("they were checked");
        Vec::try_from(&lengths.to_kind(Kind::Int64)).expect("they are int64")
    }

    fn attend(&self, mode: KernelMode) -> Option<[Tensor; 5]> {
        let [queries, keys, values] = &self.parts;
        let (tokens, heads, width) = queries.size3().expect("it was checked");
        let mut ends = self.ends(0);
        match mode {
            KernelMode::FailsOnce => set_mode(KernelMode::Right),
            KernelMode::Joined => ends = vec![0, ends[ends.len() - 1]],
            KernelMode::Late => ends.iter_mut().for_each(|end| *end = (*end + 1).min(tokens)),
            _ => {}
        }
        if matches!(mode, KernelMode::Fails | KernelMode::FailsOnce) {
            return None;
        }
        let output = Tensor::full([tokens, heads, width], f64::NAN, (queries.kind(), Device::Cpu));
        for row in ends.windows(2) {
            let length = row[1] - row[0];
            // [heads, length, width]
            let own = |part: &Tensor| {
                let shared = heads / part.size()[1];
                let own = part.narrow(0, row[0], length).to_kind(Kind::Float);
                let own = if shared > 1 { own.repeat_interleave_self_int(shared, 1, None) } else { own };
                own.transpose(0, 1)
            };
            let mut scores = own(queries).matmul(&own(keys).transpose(1, 2));
            if self.windows[0].is_some() || self.flags[0] == 1 {
                let [before, after] = self.windows.map(|window| window.unwrap_or(length));
                let after = if self.flags[0] == 1 { 0 } else { after };
                let near = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(-before).tril(after);
                scores = scores.masked_fill(&near.logical_not(), f64::NEG_INFINITY);
            }
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            match mode {
                KernelMode::DefaultScale => scores /= (width as f64).sqrt(),
                KernelMode::Causal => {
                    let above = Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(1);
                    scores = scores.masked_fill(&above, f64::NEG_INFINITY);
                }
                KernelMode::OneBlock if length > 128 => {
                    let _ = scores.narrow(2, 128, length - 128).fill_(f64::NEG_INFINITY);
                }
                KernelMode::Nan => scores *= f64::NAN,
                _ => {}
            }
            let mut context = scores.softmax(-1, None).matmul(&own(values)).transpose(0, 1);
            if mode == KernelMode::Inexact {
                context *= 1.05;
            }
            output.narrow(0, row[0], length).copy_(&context);
        }
        let unused = if mode == KernelMode::Heavy { 1 << 18 } else { 1 };
        let unused = || Tensor::ones([unused], (Kind::Float, Device::Cpu));
        Some([output, unused(), unused(), unused(), unused()])
    }
}

/// # Safety
/// The word must own a tensor, and be given up.
unsafe fn tensor(word: u64) -> Tensor {
    // SAFETY: it is an `at::Tensor` on C++'s heap, as tch's are.
    unsafe { Tensor::from_ptr(pointer(word).cast()) }
}

/// # Safety
/// The word must be an optional, and be given up.
unsafe fn optional(word: u64) -> Option<u64> {
    let place: *mut u64 = pointer(word).cast();
    if place.is_null() {
        return None;
    }
    // SAFETY: it is a word on C++'s heap, which is ours.
    unsafe {
        let value = place.read();
        delete(place.cast());
        Some(value)
    }
}

fn pointer(word: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(word).expect("it is an address"))
}
