package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// serve serves a handler at an address, and a service to the parent, until the
// parent ends it.
func serve(addr string, handler http.Handler, service any) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: requestTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = serveControl(service)
	_ = server.Close() // nobody needs its connections any more
	if failure := <-ended; !errors.Is(failure, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", failure)
	}
	return err
}

// readTools reads the file of tools that a server is to have.
func readTools(path string) ([]tool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading tools: %w", err)
	}
	var tools []tool
	if err := json.Unmarshal(content, &tools); err != nil {
		return nil, fmt.Errorf("reading tools: %w", err)
	}
	return tools, nil
}

// ports finds addresses on loopback. They stay below the range from which
// systems take the ports of outgoing connections.
type ports struct{ next int }

const (
	firstPort = 20000
	lastPort  = 32000
)

func newPorts() *ports {
	return &ports{firstPort + int(time.Now().UnixNano()/1000)%(lastPort-firstPort)}
}

// free returns an address nobody listens on.
func (p *ports) free() (string, error) {
	for range lastPort - firstPort {
		if p.next++; p.next > lastPort {
			p.next = firstPort
		}
		addr := fmt.Sprintf("127.0.0.1:%d", p.next)
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("finding a free port from %d to %d: none", firstPort, lastPort)
}
