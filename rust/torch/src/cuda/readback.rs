//! Rows on their way from a GPU to the host, and the flag that says they arrived.

use std::sync::atomic::{AtomicI64, Ordering, fence};

use tch::{Device, Kind, Tensor};

use crate::error::TorchResult;

/// A copy of rows to the host that runs by itself.
#[derive(Debug)]
pub(super) struct Readback {
    /// On the host, float32 `[rows, dimension]`; undefined until [`Self::is_ready`].
    rows: Tensor,
    /// On the host, int64 `[1]`; becomes `completed` after the rows were written.
    flag: Tensor,
    completed: i64,
    device_flag: Tensor,
}

impl Readback {
    /// Queues the copy of rows `[rows, dimension]`, without waiting until they are computed.
    ///
    /// # Errors
    /// Where torch has no memory, or a kernel failed.
    pub(super) fn start(rows: &Tensor) -> TorchResult<Self> {
        // Each batch has another value: the flag's memory may still hold an earlier one, or any small number.
        static NEXT: AtomicI64 = AtomicI64::new(0x7075_6c6c_0000_0000);
        let completed = NEXT.fetch_add(1, Ordering::Relaxed);
        // Non-blocking, so torch allocates pinned memory for the result, and caches it.
        let to_host = |tensor: &Tensor, kind| tensor.f_to_device_(Device::Cpu, kind, true, true);
        let device_flag = Tensor::f_full([1], completed, (Kind::Int64, rows.device()))?;
        let rows = to_host(rows, Kind::Float)?;
        // In the same stream, so it arrives after the rows.
        let flag = to_host(&device_flag, Kind::Int64)?;
        Ok(Self { rows, flag, completed, device_flag })
    }

    pub(super) fn is_ready(&self) -> bool {
        // SAFETY: the tensor is on the host, int64, and has one value; the device writes it whole.
        let value = unsafe { torch_sys::at_data_ptr(self.flag.as_ptr().cast_mut()).cast::<i64>().read_volatile() };
        // Rows that were written before the flag are visible after this.
        fence(Ordering::Acquire);
        value == self.completed
    }

    /// A function that waits for everything that was sent to the device, and returns the device's error. For another thread,
    /// since a device may never finish.
    pub(super) fn error_probe(&self) -> impl FnOnce() -> TorchResult<()> + Send + 'static {
        let flag = self.device_flag.f_alias();
        move || flag?.f_to_device_(Device::Cpu, Kind::Int64, false, true).map(drop)
    }

    /// Rows that never arrive.
    #[cfg(test)]
    pub(super) fn lost() -> Self {
        let value = |value: i64| Tensor::from_slice(&[value]);
        Self { rows: Tensor::from_slice(&[0.0_f32]), flag: value(1), completed: 2, device_flag: value(2) }
    }

    /// All rows, one after the other, once [`Self::is_ready`].
    pub(super) fn values(&self) -> &[f32] {
        let count: i64 = self.rows.size().iter().product();
        // SAFETY: the tensor is on the host, dense, float32, has this many values, and nothing writes to it any more.
        unsafe {
            let values = torch_sys::at_data_ptr(self.rows.as_ptr().cast_mut()).cast::<f32>();
            std::slice::from_raw_parts(values, usize::try_from(count).unwrap_or(0))
        }
    }
}
