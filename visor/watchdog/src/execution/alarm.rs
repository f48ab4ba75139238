//! A timer that is as exact as the kernel's. The runtime's own ones have milliseconds.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use monohull_sys::watched::Watched;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::time::sleep;

/// A timer of one task.
pub(crate) struct Alarm {
    timer: TimerFd,
    watched: Watched,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let watched = Watched::new(timer.as_fd().try_clone_to_owned()?)?;
        Ok(Alarm { timer, watched })
    }

    /// Returns when so much time is over. One that was begun before counts for nothing.
    async fn after(&self, pause: Duration) -> io::Result<()> {
        // A time of zero would stop it.
        let pause = TimeSpec::from_duration(pause.max(Duration::from_nanos(1)));
        self.timer.set(Expiration::OneShot(pause), TimerSetTimeFlags::empty())?;
        loop {
            let mut ready = self.watched.readable().await?;
            match self.timer.wait() {
                Ok(()) => return Ok(()),
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns when so much time is over: by an alarm, if there is one.
pub(crate) async fn after(alarm: Option<&Alarm>, pause: Duration) {
    let is_over = match alarm {
        Some(alarm) => alarm.after(pause).await.is_ok(),
        None => false,
    };
    if !is_over {
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn an_alarm_comes_when_its_time_is_over_and_not_that_of_one_before() {
        let alarm = Alarm::new().expect("a timer");
        let long = Duration::from_secs(3600);
        // One that is given up, and one that has come unseen.
        for pause in [long, Duration::from_nanos(1)] {
            let mut first = std::pin::pin!(after(Some(&alarm), pause));
            tokio::select! {
                biased;
                () = std::future::ready(()) => {}
                () = &mut first => {}
            }
            let _ = tokio::time::timeout(Duration::from_millis(1), first).await;
        }
        let (begin, pause) = (Instant::now(), Duration::from_millis(20));
        after(Some(&alarm), pause).await;
        assert!(begin.elapsed() >= pause, "{:?}", begin.elapsed());
        after(None, pause).await;
        assert!(begin.elapsed() >= 2 * pause);
    }
}
