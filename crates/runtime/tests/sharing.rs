//! Plans whose tasks share memory: what registers order passes the check, anything else is refused, as brute force says.

use oneflow_base::{DType, Device, Dims};
use oneflow_runtime::{Arena, Buffer, Home, Instr, Operand, Plan, Port, Register, Task, Work};
use oneflow_testing::Draw;

fn port(register: usize) -> Port {
    Port { register: register as u32, pieces: 1 }
}

/// Touches a buffer, as what is read or as what is written.
fn touch(buffer: usize, writes: bool) -> Instr {
    let one = |n| Dims::from_slice(&[n]);
    let o = Operand { buffer: buffer as u32, offset: 0, dtype: DType::U8, sizes: one(64), strides: one(1) };
    let (ins, outs) = if writes { (vec![], vec![o]) } else { (vec![o], vec![]) };
    Instr { steps: Vec::new(), ins, outs, origin: "touch".into() }
}

/// Tasks in a row on stream 1 and tasks beside them, with registers between some of them, over buffers of an arena of four
/// places; `returns`: the last task gives the run back.
fn drawn(d: &mut Draw, returns: bool) -> Plan {
    let (n, n_beside) = (2 + d.below(3), 1 + d.below(2));
    let n_buffers = 2 + d.below(4);
    let register = |slots| Register { name: "r".into(), device: Device::CPU, bytes: 0, slots };
    let mut p = Plan { registers: vec![register(1), register(1)], ..Plan::default() };
    p.arenas.push(Arena { device: Device::CPU, bytes: 4 * 64 });
    for _ in 0..n_buffers {
        let home = Home::Arena { arena: 0, offset: 64 * d.below(4) as u64 };
        p.buffers.push(Buffer { device: Device::CPU, bytes: 64, home });
    }
    let program = |d: &mut Draw, most: usize| -> Work {
        Work::Compute((0..d.below(most)).map(|_| touch(d.below(n_buffers), d.below(2) == 0)).collect())
    };
    let mut tasks: Vec<Task> = Vec::new();
    let caller = |name: &str, work| Task { name: name.into(), stream: 0, work, consumes: vec![], produces: vec![] };
    tasks.push(caller("caller", Work::HostIn));
    tasks[0].produces.push(port(0));
    for k in 0..n {
        let work = program(d, 4);
        tasks.push(Task { name: format!("row {k}"), stream: 1, work, consumes: vec![], produces: vec![] });
    }
    for k in 0..n_beside {
        let work = program(d, 3);
        tasks.push(Task { name: format!("beside {k}"), stream: 2, work, consumes: vec![], produces: vec![] });
    }
    tasks.push(caller("receiver", Work::HostOut));
    let mut pass = |p: &mut Plan, from: usize, to: usize| {
        p.registers.push(register(1));
        let at = port(p.registers.len() - 1);
        tasks[from].produces.push(at);
        tasks[to].consumes.push(at);
    };
    for k in 1..n {
        pass(&mut p, k, k + 1);
    }
    for b in n + 1..=n + n_beside {
        // Joined before the last one at the latest: all end before the step does.
        let from = d.below(n);
        let to = from + 1 + d.below(n - from);
        pass(&mut p, from, b);
        pass(&mut p, b, to.max(2.min(n)));
    }
    tasks[1].consumes.push(port(0));
    if returns && n > 1 {
        tasks[n].consumes.push(port(0));
    }
    tasks[n].produces.push(port(1));
    let end = tasks.len() - 1;
    tasks[end].consumes.push(port(1));
    p.tasks = tasks;
    p
}

/// Whether a path of registers leads from the one task to the other.
fn leads(p: &Plan, from: usize, to: usize) -> bool {
    let next = |a: usize| {
        let made = &p.tasks[a].produces;
        (0..p.tasks.len()).filter(move |b| p.tasks[*b].consumes.iter().any(|c| made.contains(c)))
    };
    next(from).any(|b| b == to || leads(p, b, to))
}

/// Every pair of touches of the same bytes, one of which writes or is of another buffer, in the order of registers; buffers on the
/// same bytes one after the other.
fn is_ordered(p: &Plan) -> bool {
    let mut touches: Vec<(usize, usize, u32, bool)> = Vec::new();
    for (t, task) in p.tasks.iter().enumerate() {
        let Work::Compute(program) = &task.work else { continue };
        for (at, i) in program.iter().enumerate() {
            touches.extend(i.ins.iter().map(|o| (t, at, o.buffer, false)));
            touches.extend(i.outs.iter().map(|o| (t, at, o.buffer, true)));
        }
    }
    let before = |x: &(usize, usize, u32, bool), y: &(usize, usize, u32, bool)| {
        if x.0 == y.0 { x.1 < y.1 } else { leads(p, x.0, y.0) }
    };
    let of = |b: u32| touches.iter().filter(move |t| t.2 == b);
    let n = p.buffers.len() as u32;
    let turns =
        (0..n).all(|b| of(b).all(|x| of(b).all(|y| x.0 == y.0 || !(x.3 || y.3) || before(x, y) || before(y, x))));
    let same = |a: u32, b: u32| p.buffers[a as usize].home == p.buffers[b as usize].home;
    let lives = (0..n).all(|a| {
        (0..a)
            .filter(|b| same(a, *b))
            .all(|b| of(a).all(|x| of(b).all(|y| before(x, y))) || of(a).all(|x| of(b).all(|y| before(y, x))))
    });
    turns && lives
}

#[test]
fn the_check_agrees_with_brute_force() {
    let mut d = Draw(7);
    let (mut passed, mut refused) = (0, 0);
    for case in 0..20_000 {
        let p = drawn(&mut d, true);
        let want = is_ordered(&p);
        let have = p.check();
        assert_eq!(have.is_ok(), want, "plan {case}: {have:?}\n{p:?}");
        *(if want { &mut passed } else { &mut refused }) += 1;
    }
    assert!(passed > 2000 && refused > 2000, "{passed} passed, {refused} were refused");
}

#[test]
fn steps_that_may_overlap_are_refused() {
    let mut d = Draw(11);
    let mut refused = 0;
    for _ in 0..500 {
        let mut p = drawn(&mut d, true);
        let last = p.tasks.iter().rposition(|t| t.stream == 1).unwrap();
        for (t, task) in p.tasks.iter_mut().enumerate() {
            if let Work::Compute(program) = &mut task.work {
                *program = if t == 1 || t == last { vec![touch(0, true)] } else { Vec::new() };
            }
        }
        p.check().unwrap();
        // Nothing but the run itself leads from the last task back to the first.
        p.tasks[last].consumes.retain(|c| c.register != 0);
        if last > 2 {
            let text = p.check().unwrap_err().text().to_owned();
            assert!(text.contains("may begin a step before"), "{text}");
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn what_the_caller_lends_is_used_before_it_takes_it_back() {
    let mut d = Draw(3);
    let mut p = drawn(&mut d, true);
    p.buffers.push(Buffer { device: Device::CPU, bytes: 64, home: Home::Output(0) });
    let buffer = p.buffers.len() - 1;
    let end = p.tasks.len() - 1;
    p.tasks.insert(
        end,
        Task {
            name: "late".into(),
            stream: 5,
            work: Work::Compute(vec![touch(buffer, true)]),
            consumes: vec![port(0)],
            produces: vec![],
        },
    );
    let text = p.check().unwrap_err().text().to_owned();
    assert!(text.contains("\"late\" uses the caller's memory") || text.contains("same memory"), "{text}");
}
