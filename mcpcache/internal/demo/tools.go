package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// extraTool is the tool that toggle_tool adds and removes.
	extraTool = "extra"

	// maxSteps and maxPause bound one call of count.
	maxSteps = 20
	maxPause = time.Second
)

func addTools(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("add",
		mcp.WithDescription("Adds two numbers."),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithNumber("a", mcp.Required(), mcp.Description("The first number.")),
		mcp.WithNumber("b", mcp.Required(), mcp.Description("The second number.")),
		mcp.WithOutputSchema[sum](),
	), mcp.NewStructuredToolHandler(add))

	s.AddTool(mcp.NewTool("count",
		mcp.WithDescription("Counts up and reports progress at each step."),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithInteger("steps", mcp.Description("How far to count."),
			mcp.DefaultNumber(5), mcp.Min(1), mcp.Max(maxSteps)),
		mcp.WithInteger("pause_ms", mcp.Description("Milliseconds between two steps."),
			mcp.DefaultNumber(200), mcp.Min(0), mcp.Max(maxPause.Milliseconds())),
	), mcp.NewTypedToolHandler(count))

	s.AddTool(mcp.NewTool("time",
		mcp.WithDescription("Tells the time of the server, in UTC."),
		mcp.WithReadOnlyHintAnnotation(true),
	), tellTime)

	s.AddTool(mcp.NewTool("toggle_tool",
		mcp.WithDescription("Adds the tool `"+extraTool+"`, or removes it if it is there, "+
			"so that the list of tools changes and the server announces it."),
		mcp.WithDestructiveHintAnnotation(false),
	), toggleTool)
}

// operands are the arguments of add.
type operands struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// sum is the structured result of add.
type sum struct {
	Sum float64 `json:"sum"`
}

func add(_ context.Context, _ mcp.CallToolRequest, args operands) (sum, error) {
	return sum{Sum: args.A + args.B}, nil
}

// countArgs are the arguments of count.
type countArgs struct {
	Steps   *int   `json:"steps"`
	PauseMs *int64 `json:"pause_ms"`
}

func count(ctx context.Context, request mcp.CallToolRequest, args countArgs) (*mcp.CallToolResult, error) {
	steps, pause := 5, 200*time.Millisecond
	if args.Steps != nil {
		steps = *args.Steps
	}
	if args.PauseMs != nil {
		pause = time.Duration(*args.PauseMs) * time.Millisecond
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for step := 1; step <= steps; step++ {
		// Before the pause, not after it: the transport may drop a notice
		// that the result of the call overtakes.
		if err := report(ctx, request, step, steps); err != nil {
			return nil, err
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("counting: %w", ctx.Err())
		case <-timer.C:
		}
	}
	return mcp.NewToolResultText(fmt.Sprintf("Counted to %d.", steps)), nil
}

// report tells the caller how far the call is, if the caller wants to know.
func report(ctx context.Context, request mcp.CallToolRequest, step, steps int) error {
	if request.Params.Meta == nil || request.Params.Meta.ProgressToken == nil {
		return nil
	}
	err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
		"progressToken": request.Params.Meta.ProgressToken,
		"progress":      step,
		"total":         steps,
		"message":       fmt.Sprintf("step %d of %d", step, steps),
	})
	if err != nil {
		return fmt.Errorf("reporting progress: %w", err)
	}
	return nil
}

func tellTime(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(time.Now().UTC().Format(time.RFC3339Nano)), nil
}

func toggleTool(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s := server.ServerFromContext(ctx)
	if s.GetTool(extraTool) != nil {
		s.DeleteTools(extraTool)
		return mcp.NewToolResultText("Removed the tool " + extraTool + "."), nil
	}
	s.AddTool(mcp.NewTool(extraTool,
		mcp.WithDescription("Was not here before toggle_tool was called."),
		mcp.WithReadOnlyHintAnnotation(true),
	), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("This is the extra tool."), nil
	})
	return mcp.NewToolResultText("Added the tool " + extraTool + "."), nil
}
