// Package monohull has what a WebAssembly program in Go asks of Monohull beside WASI: slots, its instance, durable calls,
// children and effects.
//
// A program is compiled with GOOS=wasip1 GOARCH=wasm. Files, arguments, clocks and random numbers are those of Go's own
// packages, and time.Sleep suspends a durable invocation. A call that waits, waits with the whole instance: other goroutines do
// not run meanwhile.
package monohull

import (
	"errors"
	"strconv"
	"syscall"
	"unsafe"
)

// ErrEmpty says that a slot is not filled yet.
var ErrEmpty = errors.New("the slot is empty")

// SlotError says why a slot could not be taken or filled. errors.Is compares it with its number, and so with the errors of io/fs.
type SlotError struct {
	Slot  string
	Errno syscall.Errno
	// Why, in words; may be empty.
	Why string
}

// Error is the explanation, or the slot with the text of the number if there is none.
func (err *SlotError) Error() string {
	if err.Why != "" {
		return err.Why
	}
	return "slot " + strconv.Quote(err.Slot) + ": " + err.Errno.Error()
}

// Unwrap is the number.
func (err *SlotError) Unwrap() error {
	return err.Errno
}

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
// fs.ErrNotExist for errors.Is.
func Take(slot string) ([]byte, error) {
	return take(slot, 1)
}

// TryTake takes over what a slot has. If it has nothing yet, the error is ErrEmpty.
func TryTake(slot string) ([]byte, error) {
	content, err := take(slot, 0)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, ErrEmpty
	}
	return content, err
}

// Publish fills a slot with a copy of these bytes.
func Publish(slot string, content []byte) error {
	return ofSlot(slot, slotPublish(start(slot), size(slot), unsafe.Pointer(unsafe.SliceData(content)), uint32(len(content)), 0))
}

// PublishText fills a slot with a text, which is UTF-8.
func PublishText(slot, text string) error {
	return ofSlot(slot, slotPublish(start(slot), size(slot), start(text), size(text), 1))
}

// PublishMoved fills a slot with these bytes, which are zero afterwards. A large slice is handed over without a copy.
func PublishMoved(slot string, content []byte) error {
	return ofSlot(slot, slotPublishMoved(start(slot), size(slot), unsafe.Pointer(unsafe.SliceData(content)), uint32(len(content)), 0))
}

func take(slot string, wait uint32) ([]byte, error) {
	var taken buffer
	if err := ofSlot(slot, slotTake(start(slot), size(slot), wait, unsafe.Pointer(&taken))); err != nil {
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

// The error of a call about a slot, if its number is one, with its explanation.
func ofSlot(slot string, number uint32) error {
	if number == 0 {
		return nil
	}
	return &SlotError{Slot: slot, Errno: syscall.Errno(number), Why: whole(lastError)}
}

// An error number of WASI.
func code(number uint32) error {
	if number == 0 {
		return nil
	}
	return syscall.Errno(number)
}
