package monohull

import (
	"time"
	"unsafe"
)

//go:wasmimport monohull start_child
func startChild(workflow unsafe.Pointer, workflowLength uint32, id unsafe.Pointer, idLength uint32, input unsafe.Pointer, length, detached uint32) int32

//go:wasmimport monohull join
func join(id unsafe.Pointer, length uint32, timeout uint64, end unsafe.Pointer) int32

//go:wasmimport monohull child_output
func childOutput(end unsafe.Pointer, endLength uint32, slot unsafe.Pointer, length uint32, part unsafe.Pointer) int32

//go:wasmimport monohull cancel_child
func cancelChild(id unsafe.Pointer, length uint32) int32

// Ending is how a child has ended.
type Ending int

// Ways in which a child ends.
const (
	Completed Ending = iota
	Failed
	Cancelled
	Refused
	TooLarge
)

// End is the end of a child.
type End struct {
	Ending  Ending
	content []byte
}

// Start starts an invocation of another workflow as a child, with the next checkpoint of this one or its end. The same id with the same workflow
// and input is the same child.
func Start(workflow, id string, input []byte) error {
	return child(workflow, id, input, 0)
}

// StartDetached starts a child that goes on when this invocation has ended, and whose end is not told.
func StartDetached(workflow, id string, input []byte) error {
	return child(workflow, id, input, 1)
}

// Join waits for the end of a child, at most so long. Without one in time the error is TimedOut.
func Join(id string, timeout time.Duration) (*End, error) {
	var taken buffer
	ending := join(start(id), size(id), nanoseconds(timeout), unsafe.Pointer(&taken))
	if ending < 0 {
		return nil, failure(ending)
	}
	content, err := taken.bytes()
	return &End{Ending: Ending(ending), content: content}, err
}

// Output is what an output slot of the child has.
func (end *End) Output(slot string) ([]byte, error) {
	if slot == "" {
		return nil, &Error{Number: NotFound, Why: "no slot has an empty name"}
	}
	return end.part(slot)
}

// The same; without a name it is the message.
func (end *End) part(slot string) ([]byte, error) {
	var part struct{ offset, length uint32 }
	content := unsafe.Pointer(unsafe.SliceData(end.content))
	answer := childOutput(content, uint32(len(end.content)), start(slot), size(slot), unsafe.Pointer(&part))
	if answer < 0 {
		return nil, failure(answer)
	}
	return end.content[part.offset : part.offset+part.length], nil
}

// Message says why the child failed; it is empty if it has not.
func (end *End) Message() string {
	message, err := end.part("")
	if err != nil {
		return ""
	}
	return string(message)
}

// Cancel cancels a child.
func Cancel(id string) error {
	return failure(cancelChild(start(id), size(id)))
}

func child(workflow, id string, input []byte, detached uint32) error {
	bytes := unsafe.Pointer(unsafe.SliceData(input))
	return failure(startChild(start(workflow), size(workflow), start(id), size(id), bytes, uint32(len(input)), detached))
}
