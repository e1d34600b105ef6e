// Command govulncheck fails if packages call what is known to be vulnerable in a module that they bring into a build. Go's own
// library and programs are left out: those are of whoever builds.
//
//	govulncheck -osv FOLDER -indexdb PROGRAM -accepted FILE PACKAGE...
//
// The folder has the reports of golang.org/x/vulndb, and the program makes a database of them. Each line of the file has a report's
// id and why it is none here. A line whose report is not found any more is an error, too.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

func main() {
	osv := flag.String("osv", "", "the folder of the reports")
	indexdb := flag.String("indexdb", "", "the program that makes a database of them")
	accepted := flag.String("accepted", "", "the file of accepted reports")
	flag.Parse()
	if err := check(*osv, *indexdb, *accepted, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(osv, indexdb, acceptedFile string, packages []string) error {
	accepted, err := readAccepted(acceptedFile)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "govulncheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := ofModules(osv, filepath.Join(folder, "osv")); err != nil {
		return err
	}
	db := filepath.Join(folder, "db")
	if out, err := exec.Command(indexdb, "-vulns", filepath.Join(folder, "osv"), "-out", db).CombinedOutput(); err != nil {
		return fmt.Errorf("indexing the database: %w\n%s", err, out)
	}
	called, err := calls(db, packages)
	if err != nil {
		return err
	}
	var wrong []string
	for _, id := range slices.Sorted(maps.Keys(called)) {
		if accepted[id] == "" {
			wrong = append(wrong, called[id])
		} else {
			fmt.Printf("accepted: %s\n  as %s\n", called[id], accepted[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if called[id] == "" {
			wrong = append(wrong, fmt.Sprintf("%s accepts %s, which is not found: take the line out", acceptedFile, id))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	fmt.Println("no other vulnerability of a module is called")
	return nil
}

// readAccepted returns the reasons of accepted reports by their ids.
func readAccepted(file string) (map[string]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	reasons := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, why, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(id, "GO-") || why == "" {
			return nil, fmt.Errorf("%s: %q is not the id of a report, such as GO-2026-1234, and a reason", file, line)
		}
		reasons[id] = why
	}
	return reasons, nil
}

// ofModules copies those reports of a folder that are of modules, without what they say of Go's own library and programs.
func ofModules(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("%s has no reports", from), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var report map[string]json.RawMessage
		var affected []json.RawMessage
		if err := errors.Join(json.Unmarshal(content, &report), json.Unmarshal(report["affected"], &affected)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		affected = slices.DeleteFunc(affected, func(one json.RawMessage) bool {
			var of struct{ Package struct{ Name string } }
			return json.Unmarshal(one, &of) == nil && (of.Package.Name == "stdlib" || of.Package.Name == "toolchain")
		})
		if len(affected) == 0 {
			continue
		}
		if report["affected"], err = json.Marshal(affected); err == nil {
			content, err = json.Marshal(report)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// calls returns a text for each report of a function that the packages call, by the id of the report.
func calls(db string, packages []string) (map[string]string, error) {
	var out, complaints bytes.Buffer
	cmd := scan.Command(context.Background(), append([]string{"-format", "json", "-db", "file://" + db}, packages...)...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := errors.Join(cmd.Start(), cmd.Wait()); err != nil {
		return nil, fmt.Errorf("govulncheck: %w\n%s", err, complaints.Bytes())
	}
	summaries, called := make(map[string]string), make(map[string]string)
	for decoder := json.NewDecoder(&out); ; {
		var message struct {
			OSV     *struct{ ID, Summary string }
			Finding *struct {
				OSV          string
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version, Package, Function, Receiver string }
			}
		}
		if err := decoder.Decode(&message); errors.Is(err, io.EOF) {
			return called, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what govulncheck has found: %w", err)
		}
		if message.OSV != nil {
			summaries[message.OSV.ID] = message.OSV.Summary
		}
		f := message.Finding
		if f == nil || called[f.OSV] != "" || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		vulnerable, ours := f.Trace[0], f.Trace[len(f.Trace)-1]
		fixed := "without a fix"
		if f.FixedVersion != "" {
			fixed = "fixed in " + f.FixedVersion
		}
		called[f.OSV] = fmt.Sprintf("%s: %s\n  in %s %s, %s; %s.%s leads to %s.%s", f.OSV, summaries[f.OSV], vulnerable.Module, vulnerable.Version, fixed,
			ours.Package, strings.TrimPrefix(ours.Receiver+"."+ours.Function, "."), vulnerable.Package, strings.TrimPrefix(vulnerable.Receiver+"."+vulnerable.Function, "."))
	}
}
