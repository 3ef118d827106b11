use super::*;
use crate::encoder::DeviceSpec;

const WANTED: usize = 100;

fn devices(count: usize, depth: usize) -> (Devices, Arc<DeviceStats>) {
    let device = |index| DeviceSpec { name: format!("fake:{index}"), depth, batch_tokens: WANTED };
    let spec = EncoderSpec {
        dimension: 1,
        max_tokens: 8,
        vocabulary: 8,
        dtype: "float32".to_owned(),
        devices: (0..count).map(device).collect(),
        notifies: true,
        needs_polling: false,
        scores: false,
        backend: "test".to_owned(),
    };
    let board = Arc::new(DeviceStats::new(&spec));
    (Devices::new(&spec, Batching::default(), Arc::clone(&board)), board)
}

fn nobody(_: usize) -> bool {
    false
}

/// Device `index` is done with batches of 100 tokens after `costs[index]` ms, one after the other; how many each gets.
fn shares(costs: &[u64], batches: usize) -> Vec<usize> {
    let (mut devices, _) = devices(costs.len(), 2);
    let start = Instant::now();
    let mut running: Vec<Vec<(u64, u64)>> = vec![Vec::new(); costs.len()];
    let (mut counts, mut clock, mut left) = (vec![0; costs.len()], 0, batches);
    loop {
        devices.begin_pass();
        while left > 0
            && let Some(device) = devices.next(start, nobody)
        {
            devices.submitted(device, WANTED);
            let begins = running[device].last().map_or(clock, |(_, ends)| *ends);
            running[device].push((clock, begins + costs[device]));
            counts[device] += 1;
            left -= 1;
        }
        let ends = running.iter().enumerate().filter_map(|(index, batches)| Some((batches.first()?.1, index)));
        let Some((now, device)) = ends.min() else { return counts };
        let (since, _) = running[device].remove(0);
        clock = now;
        let at = |ms| start + Duration::from_millis(ms);
        devices.ended(device, WANTED);
        devices.succeeded(device, WANTED, at(since), false, at(now));
    }
}

#[test]
fn devices_get_work_by_their_speed() {
    assert_eq!(shares(&[10, 10], 40), [20, 20]);
    let counts = shares(&[10, 10, 40], 90);
    assert!(counts[0] >= 38 && counts[1] >= 38 && counts[2] <= 14, "{counts:?}");
}

#[test]
fn a_batch_that_comes_alone_goes_to_the_fastest() {
    let (mut devices, _) = devices(3, 2);
    let start = Instant::now();
    for (device, ms) in [(0, 30), (1, 10), (2, 20)] {
        devices.submitted(device, WANTED);
        devices.ended(device, WANTED);
        devices.succeeded(device, WANTED, start, false, start + Duration::from_millis(ms));
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        let device = devices.next(start, nobody).unwrap();
        order.push(device);
        devices.submitted(device, WANTED);
    }
    // 10, 20 (twice of the fastest, or the next fastest), and then what is left.
    assert_eq!(order[0], 1);
    assert!(order[1..3].contains(&1) && order[1..3].contains(&2), "{order:?}");
}

#[test]
fn a_device_rests_longer_with_each_failed_trial_and_comes_back_with_a_good_one() {
    let (mut devices, board) = devices(2, 2);
    let broken = Error::new(ErrorKind::Device, "gone");
    let mut now = Instant::now();
    devices.failed(1, &broken, true, now);
    assert!(!board.states()[1].is_working);
    assert_eq!(board.states()[1].last_error.as_deref(), Some("gone"));
    let mut rest = FIRST_REST;
    for _ in 0..12 {
        let early = now + rest.saturating_sub(Duration::from_millis(1));
        assert_eq!(devices.next(early, nobody), Some(0), "it rests for {rest:?}");
        // Whom all others failed may ask it earlier.
        assert_eq!(devices.next(early, |device| device == 1), Some(1));
        now += rest;
        assert_eq!(devices.next(now, nobody), Some(1), "what is due is tried first");
        assert!(devices.submitted(1, WANTED));
        assert_eq!(devices.next(now, nobody), Some(0), "one trial at a time");
        devices.ended(1, WANTED);
        devices.failed(1, &broken, true, now);
        rest = (rest * 2).min(LONGEST_REST);
    }
    assert_eq!(rest, LONGEST_REST);
    now += rest;
    let is_trial = devices.submitted(1, WANTED);
    devices.ended(1, WANTED);
    devices.succeeded(1, WANTED, now, is_trial, now);
    assert!(board.states()[1].is_working);
    devices.failed(1, &broken, true, now);
    assert_eq!(devices.next(now + FIRST_REST, nobody), Some(1), "it begins anew");
}

#[test]
fn what_was_submitted_before_says_nothing_of_a_device_that_rests() {
    let (mut devices, board) = devices(2, 2);
    let now = Instant::now();
    devices.submitted(0, WANTED);
    let is_trial = devices.submitted(0, WANTED);
    devices.ended(0, WANTED);
    devices.failed(0, &Error::new(ErrorKind::Encoder, "once"), true, now);
    devices.ended(0, WANTED);
    devices.succeeded(0, WANTED, now, is_trial, now);
    assert!(!board.states()[0].is_working);
    // Rows that fail elsewhere too are to blame themselves.
    devices.clear_failure(0);
    assert!(board.states()[0].is_working);
}

#[test]
fn where_none_works_all_are_tried() {
    let (mut devices, _) = devices(2, 1);
    let now = Instant::now();
    for device in 0..2 {
        devices.failed(device, &Error::new(ErrorKind::Device, "gone"), true, now);
    }
    assert_eq!(devices.next(now, nobody), Some(0));
    devices.submitted(0, WANTED);
    assert_eq!(devices.next(now, nobody), Some(1));
    assert!(devices.covers_healthy(&[]));
}

#[test]
fn a_budget_is_halved_once_for_batches_of_one_size_and_grows_again() {
    let (mut devices, board) = devices(1, 2);
    let (now, full) = (Instant::now(), Error::new(ErrorKind::OutOfMemory, "full"));
    devices.on_out_of_memory(0, 100, &full);
    devices.on_out_of_memory(0, 100, &full);
    assert_eq!(devices.budget(0).tokens, 50);
    assert_eq!((board.states()[0].batch_tokens, board.states()[0].out_of_memory), (50, 2));
    devices.on_out_of_memory(0, 50, &full);
    assert_eq!(devices.budget(0).tokens, 25);
    let succeed = |devices: &mut Devices, times: u32| {
        (0..times).for_each(|_| devices.succeeded(0, 10, now, false, now));
    };
    succeed(&mut devices, FIRST_PATIENCE * 8 - 1);
    assert_eq!(devices.budget(0).tokens, 25);
    succeed(&mut devices, 1);
    assert_eq!(devices.budget(0).tokens, 50);
    succeed(&mut devices, FIRST_PATIENCE * 16);
    assert_eq!(devices.budget(0).tokens, 100, "never more than it wants");
    for _ in 0..20 {
        devices.on_out_of_memory(0, 1, &full);
    }
    assert_eq!(devices.budget(0).tokens, 1);
    assert!(devices.each[0].patience <= LONGEST_PATIENCE);
}

#[test]
fn a_device_hangs_by_what_it_finished_last_and_is_back_when_it_has_finished_all() {
    let (mut devices, board) = devices(2, 2);
    let (start, patience) = (Instant::now(), Duration::from_secs(10));
    let at = |seconds| start + Duration::from_secs(seconds);
    let error = Error::new(ErrorKind::Device, "nothing came");
    for _ in 0..3 {
        devices.submitted(0, WANTED);
    }
    assert!(!devices.hangs(0, start, patience, at(9)) && devices.hangs(0, start, patience, at(10)));
    devices.ended(0, WANTED);
    devices.succeeded(0, WANTED, start, false, at(8));
    assert!(!devices.hangs(0, start, patience, at(17)), "the second one began when the first one ended");
    assert!(devices.hangs(0, start, patience, at(18)));
    for _ in 0..2 {
        devices.gave_up(0, &error, at(18));
    }
    assert!(!devices.hangs(1, start, patience, at(99)), "nobody else works");
    assert!(!board.states()[0].is_working);
    devices.begin_pass();
    assert_eq!(devices.next(at(99), |_| true), Some(1), "what it does not finish it keeps");
    devices.pass(1);
    assert_eq!(devices.next(at(99), |_| true), None);
    devices.clear_failure(0);
    for is_last in [false, true] {
        assert!(!board.states()[0].is_working);
        devices.ended(0, WANTED);
        devices.on_late_completion(0, true, at(100));
        devices.begin_pass();
        assert_eq!(devices.next(at(100), nobody) == Some(0), is_last);
    }
    assert!(board.states()[0].is_working);
}
