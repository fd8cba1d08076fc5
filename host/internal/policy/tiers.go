package policy

import (
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	standard   = pluginv1.Tier_TIER_STANDARD
	elevated   = pluginv1.Tier_TIER_ELEVATED
	restricted = pluginv1.Tier_TIER_RESTRICTED
)

type shippedTool struct {
	plugin, group string
	tier          pluginv1.Tier
}

// shipped is the host's own map of the tools it ships with: a row binds a tool
// only when the plugin named in the row offers it. The tiers are those of the
// tool reference; what no row names is elevated.
var shipped = func() map[string]shippedTool {
	m := map[string]shippedTool{}
	add := func(plugin, group string, tier pluginv1.Tier, names ...string) {
		for _, n := range names {
			m[n] = shippedTool{plugin, group, tier}
		}
	}
	add(registry.Host, CoreGroup, standard,
		"save_to_working_memory", "get_from_working_memory", "delete_from_working_memory", "search_working_memory",
		"list_tool_guides", "get_tool_guide", "inbox_read", "call_tool")
	add("workspace", "workspace", standard,
		"read_file", "write_file", "edit_file", "list_files", "revert_file", "search_files",
		"file_read", "file_write", "file_edit", "file_list", "file_search")
	add("analyze", "workspace", standard, "analyze_file")
	add("shell", "shell", elevated, "run_shell", "read_logs")
	add("web", "research", elevated, "web_search", "web_browse", "web_fetch", "http_request",
		"http_health_check", "capture_reference")
	add("web", "research", restricted, "download_pdf")
	add("browser", "research", elevated, "web_screenshot")
	add("browser", "research", standard, "browser_render") // internal; web's grant is the gate
	add("scripts", "scripts", elevated, "execute_python_script")
	add("scheduling", "scheduling", standard, "schedule_task", "list_scheduled_tasks", "cancel_scheduled_task",
		"pause_scheduled_task", "resume_scheduled_task", "run_scheduled_task",
		"schedule_board") // internal: the command line and the dashboard
	add("mcp", "mcp", standard, "mcp_list_services", "mcp_get_service_details", "mcp_find_tools", "mcp_list_resources",
		"mcp_answer", "mcp_cancel_task", "mcp_invoke_tool")
	add("mcp", "mcp", elevated, "mcp_read_resource", "mcp_get_prompt")
	add("mcp", "mcp", restricted, "mcp_register_server", "mcp_unregister_server")
	add("mcp", CoreGroup, standard, "search_known_services")
	add("knowledge", "knowledge", standard, "search_knowledge", "write_knowledge")
	add("quality", "quality", standard, "analyze_code", "code_review", "run_tests", "validate_web_app",
		"capture_api_schema", "record_style", "check_finishing", "play_test")
	add("planning", "planning", standard, "create_plan", "read_plan", "update_plan", "todo")
	add("comms", "comms", standard, "notify_user", "report_progress")
	add("orchestration", "orchestration", standard, "delegate", "reply")
	add("orchestration", "orchestration", elevated, "spawn_subagents")
	add("team", "team", standard, "send_message_to")
	add("comfyui", "comfyui", standard, "comfyui_generate", "comfyui_status", "finish_image")
	add("comfyui", "video", standard, "comfyui_video")
	add("audio", "audio", standard, "tts_render", "tts_status")
	add("device", "device", standard, "frame_status")
	add("device", "device", restricted, "frame_install", "frame_run", "frame_grab")
	add("llm", "llm", standard, "llm_generate", "llm_models", "llm_embed")
	add("browser", "browser", standard, "browser_render")
	add("mcp", "mcp", standard, "mcp_server_index")
	return m
}()
