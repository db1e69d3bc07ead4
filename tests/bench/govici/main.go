// The peer of the bench "vici": govici reads list-sas from a socket, 5 times to warm up and 20 times measured, and
// prints its times and a checksum. The same as vici_read.ts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/strongswan/govici/vici"
)

type total struct{ strings, length int }

// walk touches every string: how many there are and how long they are together.
func walk(from *vici.Message, sum *total) {
	for _, name := range from.Keys() {
		sum.strings++
		sum.length += len(name)
		switch value := from.Get(name).(type) {
		case string:
			sum.strings++
			sum.length += len(value)
		case []string:
			for _, item := range value {
				sum.strings++
				sum.length += len(item)
			}
		case *vici.Message:
			walk(value, sum)
		}
	}
}

// checksum is FNV-1a over every string, in order, each ended by a zero byte.
func checksum(from *vici.Message, hash uint32) uint32 {
	add := func(text string) {
		for i := 0; i < len(text); i++ {
			hash = (hash ^ uint32(text[i])) * 0x01000193
		}
		hash *= 0x01000193
	}
	for _, name := range from.Keys() {
		add(name)
		switch value := from.Get(name).(type) {
		case string:
			add(value)
		case []string:
			for _, item := range value {
				add(item)
			}
		case *vici.Message:
			hash = checksum(value, hash)
		}
	}
	return hash
}

// read gives the events of one list-sas.
func read(session *vici.Session) ([]*vici.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	events := []*vici.Message{}
	for event, err := range session.CallStreaming(ctx, "list-sas", "list-sa", nil) {
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	if len(events) != 2000 {
		return nil, fmt.Errorf("cannot read 2,000 IKE_SAs: current number is %d", len(events))
	}
	return events, nil
}

func run() error {
	connect := func() (*vici.Session, error) { return vici.NewSession(vici.WithSocketPath(os.Args[1])) }
	session, err := connect()
	if err != nil {
		return err
	}
	times := []float64{}
	var hash uint32
	var sum total
	lossy := 0
	for turn := 0; turn < 25; turn++ {
		begun := time.Now()
		sum = total{}
		events, err := read(session)
		for _, event := range events {
			walk(event, &sum)
		}
		took := time.Since(begun)
		if err != nil {
			// govici drops what comes while 128 packets wait for their reader, answers too: such a reading does not count.
			if lossy++; lossy > 200 {
				return err
			}
			session.Close()
			if session, err = connect(); err != nil {
				return err
			}
			turn--
			continue
		}
		if turn >= 5 {
			times = append(times, float64(took.Microseconds())/1000)
		}
		hash = 0x811c9dc5
		for _, event := range events {
			hash = checksum(event, hash)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"ms": times, "checksum": fmt.Sprintf("%x", hash), "strings": sum.strings, "lossy": lossy,
	})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
