//! The ways a program can end. Each is a run of its own: the test asks for one by the argument `end`.

use std::fmt;
use std::io::Write;
use std::process;
use std::sync::Mutex;
use std::thread;

/// What `main` fails with.
pub(crate) struct Ending(&'static str);

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ending: {}", self.0)
    }
}

/// Leaves a line when it is dropped.
struct Goodbye;

impl Drop for Goodbye {
    fn drop(&mut self) {
        println!("dropped");
    }
}

/// The same, as a variable of a thread.
struct Farewell;

impl Drop for Farewell {
    fn drop(&mut self) {
        println!("the thread's variable dropped");
    }
}

std::thread_local! {
    static FAREWELL: Farewell = const { Farewell };
}

/// Ends the program in the way that `how` names.
pub(super) fn end(how: &str) -> Result<(), Ending> {
    let _goodbye = Goodbye;
    println!("ending with {how}");
    match how {
        "return" => Ok(()),
        "error" => Err(Ending("main failed")),
        "exit-0" => process::exit(0),
        "exit-3" => process::exit(3),
        "exit-from-thread" => {
            let _ = thread::spawn(|| process::exit(4)).join();
            Ok(())
        }
        "abort" => process::abort(),
        "panic" => panic!("the {} broke", "mast"),
        "panic-any" => std::panic::panic_any(7),
        "unwrap" => Err::<(), _>("no rudder").map_err(|error| {
            let result: Result<(), &str> = Err(error);
            result.unwrap();
            Ending("")
        }),
        "expect" => {
            None::<u8>.expect("a plank");
            Ok(())
        }
        "index" => {
            let planks: Vec<u8> = Vec::new();
            println!("{}", planks[how.len()]);
            Ok(())
        }
        "overflow" => {
            println!("{}", 1u64.checked_sub(how.len() as u64).unwrap());
            Ok(())
        }
        "divide" => {
            println!("{}", 1 / (how.len() - 6));
            Ok(())
        }
        "borrow" => {
            let cell = std::cell::RefCell::new(1);
            let _held = cell.borrow_mut();
            drop(cell.borrow());
            Ok(())
        }
        "assert" => {
            assert_eq!(how.len(), 7, "of {how}");
            Ok(())
        }
        "unreachable" => unreachable!("a reef"),
        "todo" => std::unimplemented!("sails"),
        "hook" => {
            std::panic::set_hook(Box::new(|info| {
                println!("hook: {:?} at line {}", info.payload_as_str(), info.location().is_some_and(|l| l.line() > 10))
            }));
            panic!("hooked")
        }
        "hook-panics" => {
            std::panic::set_hook(Box::new(|_| panic!("the hook broke")));
            panic!("hooked")
        }
        "exit-while-printing" => {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "a line and a half\nof output");
            process::exit(0)
        }
        "unfinished-line" => {
            print!("no newline");
            process::exit(0)
        }
        "flushed" => {
            print!("flushed ");
            let _ = std::io::stdout().flush();
            println!("line");
            Ok(())
        }
        "held-lock" => {
            let lock = Mutex::new(1);
            let _held = lock.lock();
            process::exit(5)
        }
        "input" => {
            let lines: Vec<_> = std::io::stdin().lines().map_while(Result::ok).collect();
            println!("{} lines, the last {:?}", lines.len(), lines.last());
            Ok(())
        }
        "detached" => {
            drop(thread::spawn(|| thread::park()));
            Ok(())
        }
        "thread-local-of-main" => {
            FAREWELL.with(|_| println!("the thread's variable made"));
            Ok(())
        }
        "exit-with-thread-local" => {
            FAREWELL.with(|_| println!("the thread's variable made"));
            process::exit(0)
        }
        other => {
            println!("unknown ending {other}");
            Ok(())
        }
    }
}
