package operate

import (
	"os"
	"strings"
	"testing"
)

// rule is an alert of the example with the dashboard.
type rule struct {
	alert, expr string
	text        string // all of it
}

// readRules reads rules.yml, in which each alert begins with its name and each
// expression is one line or a literal block.
func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	text, err := os.ReadFile("../../examples/metrics/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "- alert: ")[1:] {
		alert, _, _ := strings.Cut(part, "\n")
		_, rest, found := strings.Cut(part, "\n        expr: ")
		expr, block, _ := strings.Cut(rest, "\n")
		if expr == "|" {
			expr = ""
			for line := range strings.Lines(block) {
				if !strings.HasPrefix(line, "          ") {
					break
				}
				expr += line
			}
		}
		if !found || strings.Count(part, "expr:") != 1 || expr == "" {
			t.Fatalf("the alert %s has no expression that can be read", alert)
		}
		rules = append(rules, rule{alert: alert, expr: expr, text: part})
	}
	if len(rules) == 0 {
		t.Fatal("there are no rules")
	}
	return rules
}

// TestWrongExpressions has expressions checked that ask for what is not there.
func TestWrongExpressions(t *testing.T) {
	o := make(offer)
	o.addValue("requests_total", "outcome", "hit")
	o.addValue("requests_total", "outcome", "stale")
	o.add("requests_total", "handler")
	o.add("age_seconds", "kind")
	for expr, want := range map[string]string{
		`requests_total`: "",
		`sum by (outcome) (rate(requests_total{handler=~"$handler", outcome=~"hit|stale"}[5m])) > 0`:                    "",
		`sum(increase(requests_total{outcome!="hit"}[$__rate_interval])) / sum(rate(requests_total[1h]))`:               "",
		`histogram_quantile(0.99, sum by (outcome, handler) (requests_total)) unless max by (outcome) (requests_total)`: "",
		`requests_made_up_total`:                                       "no metric requests_made_up_total",
		`sum by (outcome) (rate(made_up{outcome="hit"}[5m])) > 0`:      "no metric made_up",
		`sum(requests_total) / sum(made_up)`:                           "no metric made_up",
		`requests_total or made_up`:                                    "no metric made_up",
		`requests_total unless (age_seconds - made_up)`:                "no metric made_up",
		`absent(made_up{handler="requests_total"})`:                    "no metric made_up",
		`rate(age_seconds{handler="a"}[5m])`:                           "age_seconds has no label handler",
		`sum by (kind) (requests_total)`:                               "requests_total has no label kind",
		`sum by (handler) (max by (handler, kind) (requests_total))`:   "requests_total has no label kind",
		`max by (kind) (age_seconds) - max by (kind) (requests_total)`: "requests_total has no label kind",
		`requests_total{outcome="hits"}`:                               `outcome of requests_total is never "hits"`,
		`requests_total{outcome=~"hit|stales"}`:                        `outcome of requests_total is never "stales"`,
		`1 + 1`:                                                        "no metric",
		``:                                                             "no metric",
	} {
		err := o.check(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	if err := o.check(`sum by (outcome) (requests_total)`, "handler"); err == nil {
		t.Error("a label that was summed away can be shown")
	}
}
