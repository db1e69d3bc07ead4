// A unix socket that answers every list-sas with a recording: replay SOCKET RECORDING.gz. Prints a line when it listens.
//
// The socket's send buffer is small, so that what is under way at any moment is less than the 128 packets that govici
// holds for its reader: it drops what is beyond, and could not be measured on a busy machine.
package main

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

const sendBuffer = 8 << 10

func serve(connection *net.UnixConn, recording []byte) {
	defer connection.Close()
	if err := connection.SetWriteBuffer(sendBuffer); err != nil {
		return
	}
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(connection, head); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(connection, packet); err != nil || len(packet) == 0 {
			return
		}
		answer := []byte{0, 0, 0, 1, 5} // a registration is confirmed
		if packet[0] == 0 {
			answer = recording
		}
		if _, err := connection.Write(answer); err != nil {
			return
		}
	}
}

func run() error {
	file, err := os.Open(os.Args[2])
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	recording, err := io.ReadAll(packed)
	if err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: os.Args[1], Net: "unix"})
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		connection, err := listener.AcceptUnix()
		if err != nil {
			return err
		}
		go serve(connection, recording)
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
