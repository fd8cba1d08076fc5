package sdk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

type weatherSettings struct {
	Units string `hcl:"units,optional" doc:"metric or imperial"`
}

type forecastArgs struct {
	City string `json:"city" doc:"Name of the city."`
	Days int    `json:"days,omitempty" jsonschema:"minimum=1,maximum=7" doc:"How many days; 1 by default."`
}

// weather is a whole plugin; its main is sdk.Serve(weather()).
func weather() *sdk.Plugin {
	settings := sdk.NewConfig(weatherSettings{Units: "metric"})
	return &sdk.Plugin{
		Name: "weather", Version: "1.0.0",
		Settings: settings,
		Tools: []*sdk.Tool{
			sdk.NewTool("forecast", "Tells the weather of a city.", func(ctx context.Context, call *sdk.Call, in forecastArgs) (sdk.Result, error) {
				if in.City == "" {
					return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "which city?")
				}
				return sdk.Textf("%s: fair for %d days (%s)", in.City, max(in.Days, 1), settings.Get().Units), nil
			}, sdk.ReadOnly(), sdk.WithTier(sdk.Standard)),
		},
	}
}

func ExamplePlugin() {
	fmt.Println(weather().Tools[0].Name(), weather().Check())
	// Output: forecast <nil>
}

func TestAuthorsTestInThreeLines(t *testing.T) {
	s := sdktest.Start(t, weather(), sdktest.Config(`{"units":"imperial"}`))
	s.Call("forecast", `{"city":"Oslo","days":3}`).WantText("Oslo: fair for 3 days (imperial)")
	s.Call("forecast", `{"city":""}`).WantError("invalid_arguments", "which city?")
}
