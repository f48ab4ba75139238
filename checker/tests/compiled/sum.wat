;; Adds up the words of a buffer: a loop over memory, a call, a table.
(module
  (memory (export "memory") 1)
  (type $step (func (param i64 i64) (result i64)))
  (table 1 funcref)
  (elem (i32.const 0) $add)
  (func $add (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
  (func (export "sum") (param $at i32) (param $count i32) (result i64)
    (local $total i64)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $total
          (call_indirect (type $step) (local.get $total) (i64.load (local.get $at)) (i32.const 0)))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (local.get $total)))
