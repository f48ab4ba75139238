// Package monohull has what a WebAssembly program in Go asks of Monohull beside WASI: slots, its instance, durable calls,
// children and effects.
//
// A program is compiled with GOOS=wasip1 GOARCH=wasm. Files, arguments, clocks and random numbers are those of Go's own
// packages, and time.Sleep suspends a durable invocation. A call that waits, waits with the whole instance: other goroutines do
// not run meanwhile.
package monohull

import (
	"errors"
	"syscall"
	"unsafe"
)

// ErrEmpty says that a slot is not filled yet.
var ErrEmpty = errors.New("the slot is empty")

// A buffer outside of the program's memory, as the runtime writes it.
type buffer struct {
	handle, length uint32
}

//go:wasmimport monohull slot_take
func slotTake(name unsafe.Pointer, length, wait uint32, taken unsafe.Pointer) uint32

//go:wasmimport monohull slot_move
func slotMove(handle uint32, to unsafe.Pointer, length uint32) uint32

//go:wasmimport monohull slot_free
func slotFree(handle uint32) uint32

//go:wasmimport monohull slot_publish
func slotPublish(name unsafe.Pointer, length uint32, bytes unsafe.Pointer, count, isText uint32) uint32

//go:wasmimport monohull slot_publish_moved
func slotPublishMoved(name unsafe.Pointer, length uint32, bytes unsafe.Pointer, count, isText uint32) uint32

// Take waits until a slot is filled, and takes over what it has: bytes or text. If no step will fill it, the error is
// fs.ErrNotExist.
func Take(slot string) ([]byte, error) {
	return take(slot, 1)
}

// TryTake takes over what a slot has. If it has nothing yet, the error is ErrEmpty.
func TryTake(slot string) ([]byte, error) {
	content, err := take(slot, 0)
	if err == syscall.EAGAIN {
		return nil, ErrEmpty
	}
	return content, err
}

// Publish fills a slot with a copy of these bytes.
func Publish(slot string, content []byte) error {
	return code(slotPublish(start(slot), size(slot), unsafe.Pointer(unsafe.SliceData(content)), uint32(len(content)), 0))
}

// PublishText fills a slot with a text, which is UTF-8.
func PublishText(slot, text string) error {
	return code(slotPublish(start(slot), size(slot), start(text), size(text), 1))
}

// PublishMoved fills a slot with these bytes, which are zero afterwards. A large slice is handed over without a copy.
func PublishMoved(slot string, content []byte) error {
	return code(slotPublishMoved(start(slot), size(slot), unsafe.Pointer(unsafe.SliceData(content)), uint32(len(content)), 0))
}

func take(slot string, wait uint32) ([]byte, error) {
	var taken buffer
	if err := code(slotTake(start(slot), size(slot), wait, unsafe.Pointer(&taken))); err != nil {
		return nil, err
	}
	return taken.bytes()
}

// The bytes of a buffer, which is freed. Go's memory for large slices begins with a page: there they are moved.
func (taken buffer) bytes() ([]byte, error) {
	content := make([]byte, taken.length)
	if err := code(slotMove(taken.handle, unsafe.Pointer(unsafe.SliceData(content)), taken.length)); err != nil {
		slotFree(taken.handle)
		return nil, err
	}
	return content, nil
}

func start(text string) unsafe.Pointer {
	return unsafe.Pointer(unsafe.StringData(text))
}

func size(text string) uint32 {
	return uint32(len(text))
}

// An error number of WASI.
func code(number uint32) error {
	if number == 0 {
		return nil
	}
	return syscall.Errno(number)
}
