use super::*;
use crate::encoder::DeviceSpec;

const BATCH_TOKENS: usize = 100;

fn devices(count: usize, depth: usize) -> (Devices, Arc<DeviceStats>) {
    let device = |index| DeviceSpec::new(format!("fake:{index}"), depth, BATCH_TOKENS);
    let spec = EncoderSpec::new("test", 1, 8, 8, (0..count).map(device).collect());
    let stats = Arc::new(DeviceStats::new(&spec));
    (Devices::new(&spec, Batching::default(), Arc::clone(&stats)), stats)
}

fn not_needed(_: usize) -> bool {
    false
}

/// Submits batches to devices that take `costs[index]` ms for each. Returns the number of batches of each device.
fn shares(costs: &[u64], batches: usize) -> Vec<usize> {
    let (mut devices, _) = devices(costs.len(), 2);
    let start = Instant::now();
    let mut running: Vec<Vec<(u64, u64)>> = vec![Vec::new(); costs.len()];
    let (mut counts, mut clock, mut unsubmitted) = (vec![0; costs.len()], 0, batches);
    loop {
        devices.begin_pass();
        while unsubmitted > 0
            && let Some(device) = devices.next(start, not_needed)
        {
            devices.on_submitted(device, BATCH_TOKENS);
            let begins = running[device].last().map_or(clock, |(_, ends)| *ends);
            running[device].push((clock, begins + costs[device]));
            counts[device] += 1;
            unsubmitted -= 1;
        }
        let ends = running.iter().enumerate().filter_map(|(index, batches)| Some((batches.first()?.1, index)));
        let Some((now, device)) = ends.min() else { return counts };
        let (since, _) = running[device].remove(0);
        clock = now;
        let at = |ms| start + Duration::from_millis(ms);
        devices.on_ended(device, BATCH_TOKENS);
        devices.on_success(device, BATCH_TOKENS, at(since), false, at(now));
    }
}

#[test]
fn faster_devices_get_more_batches() {
    assert_eq!(shares(&[10, 10], 40), [20, 20]);
    let counts = shares(&[10, 10, 40], 90);
    assert!(counts[0] >= 38 && counts[1] >= 38 && counts[2] <= 14, "{counts:?}");
}

#[test]
fn a_single_batch_goes_to_the_fastest_device() {
    let (mut devices, _) = devices(3, 2);
    let start = Instant::now();
    for (device, ms) in [(0, 30), (1, 10), (2, 20)] {
        devices.on_submitted(device, BATCH_TOKENS);
        devices.on_ended(device, BATCH_TOKENS);
        devices.on_success(device, BATCH_TOKENS, start, false, start + Duration::from_millis(ms));
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        let device = devices.next(start, not_needed).unwrap();
        order.push(device);
        devices.on_submitted(device, BATCH_TOKENS);
    }
    // Done after 10 ms; then after 20 ms on the fastest again or the next fastest.
    assert_eq!(order[0], 1);
    assert!(order[1..3].contains(&1) && order[1..3].contains(&2), "{order:?}");
}

#[test]
fn backoff_doubles_with_each_failed_probe_and_ends_with_a_successful_one() {
    let (mut devices, stats) = devices(2, 2);
    let broken = Error::new(ErrorKind::Device, "gone");
    let mut now = Instant::now();
    devices.on_failure(1, &broken, true, now);
    assert!(!stats.states()[1].is_working);
    assert_eq!(stats.states()[1].last_error.as_deref(), Some("gone"));
    let mut delay = INITIAL_BACKOFF;
    for _ in 0..12 {
        let early = now + delay.saturating_sub(Duration::from_millis(1));
        assert_eq!(devices.next(early, not_needed), Some(0), "it backs off for {delay:?}");
        // Rows that failed on all healthy devices do not wait for the backoff.
        assert_eq!(devices.next(early, |device| device == 1), Some(1));
        now += delay;
        assert_eq!(devices.next(now, not_needed), Some(1), "a probe that is due comes first");
        assert!(devices.on_submitted(1, BATCH_TOKENS));
        assert_eq!(devices.next(now, not_needed), Some(0), "one probe at a time");
        devices.on_ended(1, BATCH_TOKENS);
        devices.on_failure(1, &broken, true, now);
        delay = (delay * 2).min(MAX_BACKOFF);
    }
    assert_eq!(delay, MAX_BACKOFF);
    now += delay;
    let is_probe = devices.on_submitted(1, BATCH_TOKENS);
    devices.on_ended(1, BATCH_TOKENS);
    devices.on_success(1, BATCH_TOKENS, now, is_probe, now);
    assert!(stats.states()[1].is_working);
    devices.on_failure(1, &broken, true, now);
    assert_eq!(devices.next(now + INITIAL_BACKOFF, not_needed), Some(1), "the delay starts anew");
}

#[test]
fn batches_submitted_before_a_backoff_do_not_end_it() {
    let (mut devices, stats) = devices(2, 2);
    let now = Instant::now();
    devices.on_submitted(0, BATCH_TOKENS);
    let is_probe = devices.on_submitted(0, BATCH_TOKENS);
    devices.on_ended(0, BATCH_TOKENS);
    devices.on_failure(0, &Error::new(ErrorKind::Encoder, "once"), true, now);
    devices.on_ended(0, BATCH_TOKENS);
    devices.on_success(0, BATCH_TOKENS, now, is_probe, now);
    assert!(!stats.states()[0].is_working);
    // Rows that fail on another device too are at fault themselves.
    devices.clear_failure(0);
    assert!(stats.states()[0].is_working);
}

#[test]
fn with_no_healthy_device_all_are_used() {
    let (mut devices, _) = devices(2, 1);
    let now = Instant::now();
    for device in 0..2 {
        devices.on_failure(device, &Error::new(ErrorKind::Device, "gone"), true, now);
    }
    assert_eq!(devices.next(now, not_needed), Some(0));
    devices.on_submitted(0, BATCH_TOKENS);
    assert_eq!(devices.next(now, not_needed), Some(1));
    assert!(devices.covers_healthy(&[]));
}

#[test]
fn out_of_memory_halves_the_budget_once_for_batches_of_one_size_and_it_grows_again() {
    let (mut devices, stats) = devices(1, 2);
    let (now, full) = (Instant::now(), Error::new(ErrorKind::OutOfMemory, "full"));
    devices.on_out_of_memory(0, 100, &full);
    devices.on_out_of_memory(0, 100, &full);
    assert_eq!(devices.budget(0).tokens, 50);
    assert_eq!((stats.states()[0].batch_tokens, stats.states()[0].out_of_memory), (50, 2));
    devices.on_out_of_memory(0, 50, &full);
    assert_eq!(devices.budget(0).tokens, 25);
    let succeed = |devices: &mut Devices, times: u32| {
        (0..times).for_each(|_| devices.on_success(0, 10, now, false, now));
    };
    succeed(&mut devices, MIN_SUCCESSES_TO_GROW * 8 - 1);
    assert_eq!(devices.budget(0).tokens, 25);
    succeed(&mut devices, 1);
    assert_eq!(devices.budget(0).tokens, 50);
    succeed(&mut devices, MIN_SUCCESSES_TO_GROW * 16);
    assert_eq!(devices.budget(0).tokens, 100, "never above the configured budget");
    for _ in 0..20 {
        devices.on_out_of_memory(0, 1, &full);
    }
    assert_eq!(devices.budget(0).tokens, 1);
    assert!(devices.all[0].successes_to_grow <= MAX_SUCCESSES_TO_GROW);
}

#[test]
fn a_stall_is_measured_from_the_last_finished_batch_and_ends_when_the_device_has_finished_all() {
    let (mut devices, stats) = devices(2, 2);
    let (start, timeout) = (Instant::now(), Duration::from_secs(10));
    let at = |seconds| start + Duration::from_secs(seconds);
    let error = Error::new(ErrorKind::Device, "stalled");
    for _ in 0..3 {
        devices.on_submitted(0, BATCH_TOKENS);
    }
    assert!(!devices.is_stalled(0, start, timeout, at(9)) && devices.is_stalled(0, start, timeout, at(10)));
    devices.on_ended(0, BATCH_TOKENS);
    devices.on_success(0, BATCH_TOKENS, start, false, at(8));
    assert!(!devices.is_stalled(0, start, timeout, at(17)), "the second one began when the first one ended");
    assert!(devices.is_stalled(0, start, timeout, at(18)));
    for _ in 0..2 {
        devices.on_abandoned(0, &error, at(18));
    }
    assert!(!devices.is_stalled(1, start, timeout, at(99)), "no other device is healthy");
    assert!(!stats.states()[0].is_working);
    devices.begin_pass();
    assert_eq!(devices.next(at(99), |_| true), Some(1), "it still holds two batches");
    devices.skip(1);
    assert_eq!(devices.next(at(99), |_| true), None);
    devices.clear_failure(0);
    for is_last in [false, true] {
        assert!(!stats.states()[0].is_working);
        devices.on_ended(0, BATCH_TOKENS);
        devices.on_late_completion(0, true, at(100));
        devices.begin_pass();
        assert_eq!(devices.next(at(100), not_needed) == Some(0), is_last);
    }
    assert!(stats.states()[0].is_working);
}
