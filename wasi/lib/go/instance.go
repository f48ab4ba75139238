package monohull

import "unsafe"

//go:wasmimport monohull instance_index
func instanceIndex() uint32

//go:wasmimport monohull instance_count
func instanceCount() uint32

//go:wasmimport monohull attempt
func attempt() uint32

//go:wasmimport monohull ready
func ready() uint32

//go:wasmimport monohull number
func number(which uint32) int64

//go:wasmimport monohull text
func text(which uint32, to unsafe.Pointer, room uint32) int32

//go:wasmimport monohull fail
func fail(isPermanent uint32, why unsafe.Pointer, length uint32)

// Index says which of the step's instances this is, from 0.
func Index() int {
	return int(instanceIndex())
}

// Count says how many instances the step has.
func Count() int {
	return int(instanceCount())
}

// Attempt says which attempt of the instance this is, from 1.
func Attempt() int {
	return int(attempt())
}

// Generation says how often the invocation has gone on from a checkpoint: what was drawn at random for secrets is to be drawn
// again when it has changed.
func Generation() int64 {
	return number(13)
}

// Step is the name of the step.
func Step() string {
	return textOf(3)
}

// Invocation is the id of the durable invocation; empty if it is none.
func Invocation() string {
	return textOf(6)
}

// Ready says that the program is ready for its inputs. It is true in an instance that has started here, from a template. Go's runtime draws random
// numbers when it starts, and what does so before it is ready has no template: it is false as long as that is so.
func Ready() bool {
	return ready() == 1
}

// Fail ends the instance as failed, with this text. If isPermanent, it is not tried again.
func Fail(isPermanent bool, why string) {
	permanent := uint32(0)
	if isPermanent {
		permanent = 1
	}
	fail(permanent, start(why), size(why))
}

func textOf(which uint32) string {
	return whole(func(to unsafe.Pointer, room uint32) int32 { return text(which, to, room) })
}

// A text that a call copies as far as there is room, and of which it says how long it is.
func whole(copied func(to unsafe.Pointer, room uint32) int32) string {
	room := make([]byte, 256)
	for {
		length := int(copied(unsafe.Pointer(unsafe.SliceData(room)), uint32(len(room))))
		if length < 0 {
			return ""
		}
		if length <= len(room) {
			return string(room[:length])
		}
		room = make([]byte, length)
	}
}
