package flight

// Signal puts a token into a channel with room for one, unless it has one. The goroutine that
// receives from the channel goes on, now or when it receives the next time.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
