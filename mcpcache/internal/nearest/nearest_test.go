package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	names := []string{"forecast", "get_weather", "set_alarm", "set_clock", "a", "täglich", strings.Repeat("x", 10_000)}
	for word, want := range map[string]string{
		"forcast": "forecast", "Forecast": "forecast", "frecast": "forecast", "forecasts": "forecast", "fcast": "",
		"weather": "get_weather", "set_": "", "we": "", "set_alram": "set_alarm", "taglich": "täglich", "b": "", "A": "a", "none": "", "": "",
		strings.Repeat("x", 9_999): "", strings.Repeat("x", maxNear+1): "",
	} {
		if got := Name(word, names); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
	long := strings.Repeat("y", maxNear)
	if got := Name(long, []string{long[1:]}); got != long[1:] {
		t.Errorf("of %d characters: %q", maxNear, got)
	}
}

func TestQuestion(t *testing.T) {
	for word, want := range map[string]string{"tll": " (did you mean ttl?)", "ttl": " (did you mean ttl?)", "guard": ""} {
		if got := Question(word, []string{"kinds", "ttl"}); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
