// Package network makes connections over TCP to what the workflow's network grants. Go's own package net has none for WASI, but what uses its
// connections works on these. A client of net/http:
//
//	client := http.Client{Transport: &http.Transport{DialContext: network.DialContext}}
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// Addresses of a name that are looked at.
const most = 32

//go:wasmimport monohull lookup
func lookup(name unsafe.Pointer, length uint32, found unsafe.Pointer, most uint32, count unsafe.Pointer) uint32

//go:wasmimport monohull socket_connect
func socketConnect(to, descriptor unsafe.Pointer) uint32

//go:wasmimport monohull socket_failure
func socketFailure(descriptor int32) uint32

//go:wasmimport monohull last_error
func lastError(to unsafe.Pointer, room uint32) int32

// Address as the host has it.
type address struct {
	family, port uint32
	bytes        [16]byte
	flow, scope  uint32
}

// Dial connects to an address, such as db.example:5432.
func Dial(address string) (net.Conn, error) {
	return DialContext(context.Background(), "tcp", address)
}

// DialContext does the same for a network, which is tcp, tcp4 or tcp6, and until the context ends. Looking up the name comes before. Other goroutines
// do not run meanwhile.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := connect(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, address, err)
	}
	return conn, nil
}

// LookupHost finds the addresses of a name.
func LookupHost(name string) ([]string, error) {
	found, err := addressesOf(name)
	if err != nil {
		return nil, fmt.Errorf("lookup %s: %w", name, err)
	}
	var texts []string
	for _, address := range found {
		texts = append(texts, address.netip().String())
	}
	return texts, nil
}

func (address *address) netip() netip.Addr {
	if address.family == 4 {
		return netip.AddrFrom4([4]byte(address.bytes[:4]))
	}
	return netip.AddrFrom16(address.bytes)
}

func connect(ctx context.Context, network, address string) (net.Conn, error) {
	families := map[string]uint32{"tcp": 0, "tcp4": 4, "tcp6": 6}
	family, known := families[network]
	if !known {
		return nil, net.UnknownNetworkError(network)
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	found, err := addressesOf(host)
	if err != nil {
		return nil, err
	}
	err = syscall.ENOENT
	for at := range found {
		to := &found[at]
		if family != 0 && family != to.family {
			continue
		}
		to.port = uint32(port)
		var conn net.Conn
		if conn, err = connectTo(ctx, to); err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, err
}

func addressesOf(name string) ([]address, error) {
	if in, err := netip.ParseAddr(name); err == nil {
		to := address{family: 6}
		if in.Is4() {
			to.family = 4
			copy(to.bytes[:], in.AsSlice())
		} else {
			to.bytes = in.As16()
		}
		return []address{to}, nil
	}
	var found [most]address
	var count uint32
	number := lookup(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), unsafe.Pointer(&found), most, unsafe.Pointer(&count))
	if number != 0 {
		return nil, failure(number)
	}
	return found[:count], nil
}

// The connection is a file that does not wait: Go's scheduler asks for it, and other goroutines run.
func connectTo(ctx context.Context, to *address) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var descriptor int32
	if number := socketConnect(unsafe.Pointer(to), unsafe.Pointer(&descriptor)); number != 0 {
		return nil, failure(number)
	}
	file := os.NewFile(uintptr(descriptor), "connection")
	conn, err := net.FileConn(file)
	// What it was made of has a reference of its own.
	file.Close()
	if err != nil {
		return nil, err
	}
	if err := made(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Waits until the connection is made, or has failed.
func made(ctx context.Context, conn net.Conn) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })
	asked, number := false, uint32(0)
	err = raw.Write(func(descriptor uintptr) bool {
		if !asked {
			asked = true
			return false
		}
		number = socketFailure(int32(descriptor))
		return true
	})
	if !stop() {
		// A deadline that is over would stay.
		return ctx.Err()
	}
	if err == nil && number != 0 {
		err = failure(number)
	}
	return err
}

// What is not granted comes with the reason.
func failure(number uint32) error {
	err := error(syscall.Errno(number))
	if errors.Is(err, syscall.EPERM) {
		var room [256]byte
		if length := int(lastError(unsafe.Pointer(&room), uint32(len(room)))); length > 0 {
			err = fmt.Errorf("%w: %s", err, room[:min(length, len(room))])
		}
	}
	return err
}
