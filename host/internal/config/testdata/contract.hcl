host {
  data_dir = "data"
  plugins  = "bin/plugins"
  shared   = "data/shared"
  autoload = true
}

frontend "http" {
  address = "127.0.0.1:7411"
}

results {
  threshold = 64000                 # characters
  model "openrouter/deepseek*" { threshold = 32000 }
}

plugin "web" {
  grants = ["shared", "tool:browser_render"]
  env    = { HTTPS_PROXY = env("HTTPS_PROXY", "") }
  limits {
    memory       = "512MiB"
    processes    = 64
    calls        = 32
    queue        = 128
    call_timeout = "60s"
  }
  sandbox {
    profile = "strict"              # strict | launcher | none
    network = "all"                 # none | all
    read    = []
    write   = []
    exec    = []
  }
  config {
    allow_hosts        = ["intranet.example"]
    max_search_results = 5
    chunking_threshold = 8000
    chunk_max_length   = 4000
    chunk_ttl          = "30m"
    render_timeout     = "30s"
    search "brave" {
      api_key = env("BRAVE_API_KEY")
    }
  }
}

plugin "mcp" {
  grants = ["shared", "tool:llm_generate"]
  config {
    wrapper_mode = "auto"           # off | eager | lazy | pinned | auto
    server "calendar" {
      url           = "https://calendar-mcp.example/"
      denied_tools  = ["delete_station"]
      tool_timeout  = "120s"
      attachments {
        threshold = "256KiB"
        outbound { param_paths = ["attachments[*]"] }
        inbound { tools = ["get_email_attachment"] }
      }
      arg_guard "path-prefix" {
        tools   = ["download_file"]
        mode    = "enforce"
        options = {
          args             = ["save_directory"]
          allowed_prefixes = ["/shared"]
          require_args     = true
        }
      }
      elicitation {
        mode              = "auto"
        max_per_call      = 3
        responder         = "llm"
        responder_timeout = "20s"
        defaults          = { mailbox = "work" }
        denied_fields     = ["accountId"]
      }
      tasks        = true
      task_timeout = "30m"
    }
    server "files" {
      command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/shared"]
    }
  }
}

session {
  list_budget     = 120
  activated_tools = 40
  idle            = "12h"
}

agent "me" {
  token    = secret("me")
  approver = true
}

agent "researcher" {
  token      = secret("researcher")
  model      = "openai/gpt-5.5"     # for results.model; a request may say dev.bulkhead/model
  profile    = "main"
  model_tier = "balanced"
  groups     = ["research", "mcp"]
  deny       = ["mcp_register_server"]
}

profile "reviewer" {
  tools     = ["read_file", "search_files", "code_review"]
  expansion = ["run_tests"]
}

team "docs" {
  mode          = "hierarchical"    # sequential | parallel
  supervisor    = "lead"
  workers       = ["researcher"]
  tool_requests = "ask"             # refuse | ask | grant
}

policy {
  tier "restricted" {
    tools            = ["download_pdf"]
    approval_timeout = "10m"
  }
  rule "no-prod-shell" {
    tools = ["run_shell"]
    when  = "args.command.contains('prod')"
    tier  = "restricted"
  }
}
