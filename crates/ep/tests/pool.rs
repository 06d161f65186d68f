//! The thread pool: every task runs once, from any caller and whether or not tasks fail.

use oneflow_ep::cpu::{in_parallel_region, num_threads, parallel_for, set_num_threads, set_thread_num_threads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn check_each_once(n: usize) {
    let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
    parallel_for(n, &|i| {
        hits[i].fetch_add(1, Relaxed);
    });
    assert!(hits.iter().all(|h| h.load(Relaxed) == 1), "{n}");
}

#[test]
fn every_task_runs_once_for_any_number_of_threads() {
    for threads in [1, 2, 4, 7] {
        set_num_threads(threads);
        for n in [0, 1, 2, 3, 64, 1000] {
            for _ in 0..200 {
                check_each_once(n);
            }
        }
    }
    set_num_threads(4);
}

#[test]
fn many_callers_and_nested_regions() {
    set_num_threads(4);
    std::thread::scope(|s| {
        for _ in 0..6 {
            s.spawn(|| {
                for _ in 0..300 {
                    let n = AtomicUsize::new(0);
                    parallel_for(9, &|_| {
                        parallel_for(5, &|_| {
                            n.fetch_add(1, Relaxed);
                        });
                    });
                    assert_eq!(n.load(Relaxed), 45);
                    assert!(!in_parallel_region());
                }
            });
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    set_num_threads(4);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for bad in 0..20 {
        let r = catch_unwind(AssertUnwindSafe(|| parallel_for(20, &|i| assert!(i != bad, "task {i}"))));
        let text = *r.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(text, format!("task {bad}"));
        check_each_once(100);
    }
    std::panic::set_hook(hook);
}

#[test]
fn a_thread_may_have_its_own_number_of_threads() {
    std::thread::spawn(|| {
        set_thread_num_threads(Some(1));
        assert_eq!(num_threads(), 1);
        let me = std::thread::current().id();
        parallel_for(50, &|_| assert_eq!(std::thread::current().id(), me));
        set_thread_num_threads(None);
    })
    .join()
    .unwrap();
}

#[test]
fn a_forked_child_has_a_pool_of_its_own() {
    set_num_threads(4);
    check_each_once(100);
    // SAFETY: the child runs a region, touches nothing else, and leaves without running destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let n = AtomicUsize::new(0);
        parallel_for(1000, &|_| {
            n.fetch_add(1, Relaxed);
        });
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if n.load(Relaxed) == 1000 { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!((waited, status), (pid, 0));
}
