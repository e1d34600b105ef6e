package probe

import (
	"context"
	"net"
	"sync"
)

// patientConn reads nothing before something was written. What speaks first
// does not speak HTTP; net/http would write a line about it into the log.
type patientConn struct {
	net.Conn

	spoken chan struct{}
	once   sync.Once
}

func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn, spoken: make(chan struct{})}, nil
}

func (c *patientConn) Read(p []byte) (int, error) {
	<-c.spoken
	return c.Conn.Read(p)
}

func (c *patientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.once.Do(func() { close(c.spoken) })
	return n, err
}

func (c *patientConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.spoken) })
	return err
}
