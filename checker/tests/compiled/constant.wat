;; A constant that has the bytes of WRPKRU in it.
(module
  (func (export "constant") (result i32) (i32.const 0xef010f)))
