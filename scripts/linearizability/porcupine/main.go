// Checks histories, one file each, with porcupine.  The files are described in
// kraft_trio/simulation/facts/history_file.py.  Exits with 1 if one of them is not linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeout = 2 * time.Minute

type entry struct {
	Client    string
	Kind      string
	Command   []any
	Outcome   string
	Result    any
	Invoked   int64
	Completed *int64
}

// facts are what the answers say about the log: unique values have one offset each.
type facts struct {
	offsets map[string]float64
	values  map[float64]string
	sorted  []float64
	// revisions are those of the store's changes whose clients were answered.
	revisions map[float64]bool
}

// register is a value that is swapped, compared and swapped, or got.
func register(state any, e *entry) (bool, any) {
	known := e.Outcome == "ok"
	switch e.Command[0] {
	case "swap":
		return !known || e.Result == state, e.Command[2]
	case "cas":
		fits := state == e.Command[2]
		if fits {
			state = e.Command[3]
		}
		return !known || e.Result == fits, state
	case "get":
		return !known || e.Result == state, state
	}
	panic(fmt.Sprintf("unknown verb: %v", e.Command[0]))
}

// contents is the state of the key-value store.  The values are an object of JSON, whose keys are sorted.
type contents struct {
	revision float64
	values   string
}

// store is the key-value store.  Each change has the next revision, which its client is told.
func (known *facts) store(state any, e *entry) (bool, any) {
	now := state.(contents)
	values := map[string]string{}
	if err := json.Unmarshal([]byte(now.values), &values); err != nil {
		panic(err)
	}
	key := e.Command[1].(string)
	before, is := values[key]
	var told any
	if is {
		told = before
	}
	changes := true
	switch e.Command[0] {
	case "range":
		return reflect.DeepEqual(e.Result, []any{now.revision, within(values, key, e.Command[2])}), state
	case "put":
		values[key] = e.Command[2].(string)
	case "delete":
		changes = is
		delete(values, key)
	case "txn":
		changes = told == e.Command[2]
		told = changes
		if changes {
			values[key] = e.Command[3].(string)
		}
	default:
		panic(fmt.Sprintf("unknown verb: %v", e.Command[0]))
	}
	if changes {
		now.revision++
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	now.values = string(text)
	if e.Outcome == "ok" {
		return reflect.DeepEqual(e.Result, []any{now.revision, told}), now
	}
	return !changes || !known.revisions[now.revision], now
}

// within has the keys from `key` to `end` (exclusive) with their values; only that key if `end` is nil.
func within(values map[string]string, key string, end any) []any {
	keys := []string{}
	for name := range values {
		if name == key || (end != nil && key <= name && name < end.(string)) {
			keys = append(keys, name)
		}
	}
	sort.Strings(keys)
	found := []any{}
	for _, name := range keys {
		found = append(found, []any{name, values[name]})
	}
	return found
}

// learnRevision takes in the revision of a change whose client was answered.
func (known *facts) learnRevision(e *entry) {
	result := e.Result.([]any)
	if e.Command[0] == "put" || (e.Command[0] == "delete" && result[1] != nil) || result[1] == true {
		known.revisions[result[0].(float64)] = true
	}
}

// log has the end (exclusive) of the last value as its state, because the offsets of all values are facts.
func (known *facts) log(state any, e *entry) (bool, any) {
	end := state.(float64)
	if e.Command[0] == "append" {
		first, _ := known.place(e)
		return first >= end, first + float64(len(values(e)))
	}
	from := e.Command[1].(float64)
	expected := []any{}
	for _, offset := range known.sorted[sort.SearchFloat64s(known.sorted, from):] {
		if offset < end {
			expected = append(expected, []any{offset, known.values[offset]})
		}
	}
	return reflect.DeepEqual(expected, e.Result), end
}

func values(e *entry) []any { return e.Command[1].([]any) }

// place tells the first offset of an append, if anybody was told of one of its values.
func (known *facts) place(e *entry) (float64, bool) {
	for index, value := range values(e) {
		if offset, seen := known.offsets[value.(string)]; seen {
			return offset - float64(index), true
		}
	}
	return 0, false
}

// learn takes in the offset of a value; false if the value or the offset is taken.
func (known *facts) learn(value string, offset float64) bool {
	if there, seen := known.values[offset]; seen {
		return there == value
	}
	if _, seen := known.offsets[value]; seen {
		return false
	}
	known.offsets[value], known.values[offset] = offset, value
	known.sorted = append(known.sorted, offset)
	return true
}

// learnAll tells whether all answers about the log agree on its values, all of which somebody may have appended.
func (known *facts) learnAll(entries []*entry) bool {
	agree, appended := true, map[string]bool{}
	for _, e := range entries {
		if e.Command[0] == "append" {
			for index, value := range values(e) {
				appended[value.(string)] = e.Outcome != "fail"
				if e.Outcome == "ok" {
					agree = known.learn(value.(string), e.Result.([]any)[index].(float64)) && agree
				}
			}
		} else if e.Command[0] == "read" && e.Outcome == "ok" {
			for _, pair := range e.Result.([]any) {
				agree = known.learn(pair.([]any)[1].(string), pair.([]any)[0].(float64)) && agree
			}
		}
	}
	for value := range known.offsets {
		agree = agree && appended[value]
	}
	for _, e := range entries {
		if first, seen := 0.0, false; e.Command[0] == "append" {
			first, seen = known.place(e)
			for index, value := range values(e) {
				offset, told := known.offsets[value.(string)]
				agree = agree && (!seen || !told || offset == first+float64(index))
			}
		}
	}
	sort.Float64s(known.sorted)
	return agree
}

// mayMatter is false for reads of unknown outcome, and for such appends whose values nobody was told of.
func (known *facts) mayMatter(e *entry) bool {
	if e.Command[0] == "append" {
		_, seen := known.place(e)
		return seen
	}
	return e.Command[0] != "read" && e.Command[0] != "get" && e.Command[0] != "range"
}

func isOnLog(e *entry) bool { return e.Command[0] == "append" || e.Command[0] == "read" }

func isOnStore(e *entry) bool {
	return e.Command[0] == "put" || e.Command[0] == "delete" || e.Command[0] == "txn" || e.Command[0] == "range"
}

func check(entries []*entry) string {
	known := &facts{map[string]float64{}, map[float64]string{}, nil, map[float64]bool{}}
	if !known.learnAll(entries) {
		return "not linearizable: the answers about the log disagree"
	}
	objects := map[string][]porcupine.Operation{}
	for client, e := range entries {
		if e.Outcome != "ok" && (e.Outcome == "fail" || !known.mayMatter(e)) {
			continue
		}
		name := "the log"
		if isOnStore(e) {
			name = "the store"
			if e.Outcome == "ok" {
				known.learnRevision(e)
			}
		} else if !isOnLog(e) {
			name = "register " + e.Command[1].(string)
		}
		completed := int64(math.MaxInt64)
		if e.Completed != nil && e.Outcome == "ok" {
			completed = *e.Completed
		}
		objects[name] = append(objects[name], porcupine.Operation{
			ClientId: client, Input: e, Call: e.Invoked, Output: e, Return: completed,
		})
	}
	names := []string{}
	for name := range objects {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		model := porcupine.Model{
			Init: func() any { return nil },
			Step: func(state, input, _ any) (bool, any) { return register(state, input.(*entry)) },
		}
		if name == "the store" {
			model.Init = func() any { return contents{1, "{}"} }
			model.Step = func(state, input, _ any) (bool, any) { return known.store(state, input.(*entry)) }
		}
		if name == "the log" {
			model.Init = func() any { return 0.0 }
			model.Step = func(state, input, _ any) (bool, any) { return known.log(state, input.(*entry)) }
		}
		switch porcupine.CheckOperationsTimeout(model, objects[name], timeout) {
		case porcupine.Illegal:
			return "not linearizable: " + name
		case porcupine.Unknown:
			return fmt.Sprintf("not decided within %v: %s", timeout, name)
		}
	}
	return ""
}

func read(path string) ([]*entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	entries := []*entry{}
	for lines.Scan() {
		e := &entry{}
		if err := json.Unmarshal(lines.Bytes(), e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, lines.Err()
}

func main() {
	code := 0
	for _, path := range os.Args[1:] {
		entries, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		problem := check(entries)
		if problem != "" {
			code = 1
		} else {
			problem = "linearizable"
		}
		fmt.Printf("%s\t%s\n", path, problem)
	}
	os.Exit(code)
}
