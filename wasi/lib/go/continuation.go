package monohull

import "unsafe"

//go:wasmimport monohull continuation
func continuation(number unsafe.Pointer) int32

//go:wasmimport monohull continuation_wait
func continuationWait(number uint64, taken unsafe.Pointer) int32

//go:wasmimport monohull continuation_take
func continuationTake(slot unsafe.Pointer, length, wait uint32) int32

//go:wasmimport monohull continuation_publish
func continuationPublish(handle uint32, slot unsafe.Pointer, length uint32) int32

//go:wasmimport monohull continuation_resume
func continuationResume(handle uint32, value unsafe.Pointer, length uint32) int32

//go:wasmimport monohull continuation_free
func continuationFree(handle, atOnce uint32) int32

// CallCC publishes the continuation of this call in a slot, and waits until another function uses it: what with. If it was dropped the error is
// NeverFilled.
func CallCC(slot string) ([]byte, error) {
	var number uint64
	handle := continuation(unsafe.Pointer(&number))
	if handle < 0 {
		return nil, failure(handle)
	}
	if err := failure(continuationPublish(uint32(handle), start(slot), size(slot))); err != nil {
		continuationFree(uint32(handle), 0)
		return nil, err
	}
	var taken buffer
	if err := failure(continuationWait(number, unsafe.Pointer(&taken))); err != nil {
		return nil, err
	}
	return taken.bytes()
}

// Continuation is the rest of a function that waits in CallCC. It is used once. A nil one, the zero value and a copy are none.
type Continuation struct {
	// Itself, for as long as it is this function's: the runtime gives the handle to another one afterwards.
	owned  *Continuation
	handle uint32
}

// TakeContinuation takes one from a slot, and waits until there is one.
func TakeContinuation(slot string) (*Continuation, error) {
	handle := continuationTake(start(slot), size(slot), 1)
	if handle < 0 {
		return nil, failure(handle)
	}
	taken := &Continuation{handle: uint32(handle)}
	taken.owned = taken
	return taken, nil
}

// Resume uses it: what waits goes on with these bytes. After an error it is still this function's.
func (one *Continuation) Resume(value []byte) error {
	return one.give(func(handle uint32) int32 {
		return continuationResume(handle, unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)))
	})
}

// Publish hands it on in a slot. After an error it is still this function's.
func (one *Continuation) Publish(slot string) error {
	return one.give(func(handle uint32) int32 { return continuationPublish(handle, start(slot), size(slot)) })
}

// Discard drops it at once: what waits gets its error now, and this instance is not repeated alone if it fails later.
func (one *Continuation) Discard() error {
	return one.give(func(handle uint32) int32 { return continuationFree(handle, 1) })
}

// Does what it is gone after, if it is this function's.
func (one *Continuation) give(away func(handle uint32) int32) error {
	if one == nil || one.owned != one {
		return &Error{Number: GivenAway, Why: "the continuation has been used, handed on or discarded, or was not taken from a slot"}
	}
	err := failure(away(one.handle))
	if err == nil {
		one.owned = nil
	}
	return err
}
