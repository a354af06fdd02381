//! Run-time checks whose outcome is still on the device.
use crate::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tpu_ops::{Class, Error as OpError};
use tpu_pjrt::Buffer;

/// What a check gives when all is well.
pub(crate) const FINE: i64 = i64::MIN;

/// Checks launched and not yet looked at.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    checks: Mutex<Vec<(Arc<Buffer>, Arc<str>)>>,
}

impl Pending {
    /// Looks at the check at once if its result is there, else keeps it for [`Pending::settle`].
    pub(crate) fn watch(&self, flag: Arc<Buffer>, message: &Arc<str>) -> Result<()> {
        match flag.host_slice() {
            Some(bytes) => judge(bytes, message),
            None => {
                self.checks.lock().push((flag, Arc::clone(message)));
                Ok(())
            }
        }
    }

    /// Waits for all checks and raises the first that failed.
    pub(crate) fn settle(&self) -> Result<()> {
        let checks = std::mem::take(&mut *self.checks.lock());
        for (flag, message) in checks {
            let mut bytes = [0; 8];
            flag.to_host(&mut bytes)?;
            judge(&bytes, &message)?;
        }
        Ok(())
    }
}

fn judge(bytes: &[u8], message: &str) -> Result<()> {
    let value = bytes.try_into().map_or(FINE, i64::from_le_bytes);
    if value == FINE {
        return Ok(());
    }
    let (class, text) = message
        .split_once(": ")
        .unwrap_or(("RuntimeError", message));
    let class = match class {
        "IndexError" => Class::Index,
        "ValueError" => Class::Value,
        "TypeError" => Class::Type,
        "LinAlgError" => Class::LinAlg,
        _ => Class::Runtime,
    };
    let message = text.replace("{}", &value.to_string());
    Err(Error::Op(OpError::Torch { class, message }))
}
