// Optimizers and schedules against torch's (tests/golden/optimizer).
#include "trainer/optimizer.h"

#include <cmath>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainer/schedule.h"

namespace cairn::trainer {
namespace {

using nlohmann::json;

json golden(const std::string& name) {
  std::ifstream file(std::string(CAIRN_SOURCE_DIR) + "/tests/golden/optimizer/" + name);
  EXPECT_TRUE(file) << name;
  return json::parse(file);
}

at::Tensor tensor_of(const json& values, const json& shape) {
  std::vector<float> numbers = values;
  std::vector<int64_t> sizes = shape;
  return at::tensor(numbers).reshape(sizes).clone();
}

config::OptimizerSettings settings_of(const json& from) {
  config::OptimizerSettings settings;
  std::string kind = from["kind"];
  settings.kind = kind == "adamw"      ? config::OptimizerKind::kAdamW
                  : kind == "sgd"      ? config::OptimizerKind::kSgd
                  : kind == "sign_sgd" ? config::OptimizerKind::kSignSgd
                                       : config::OptimizerKind::kMuon;
  settings.weight_decay = from["weight_decay"];
  settings.betas1 = from.value("betas1", settings.betas1);
  settings.betas2 = from.value("betas2", settings.betas2);
  settings.eps = from.value("eps", settings.eps);
  settings.momentum = from.value("momentum", settings.momentum);
  settings.nesterov = from.value("nesterov", settings.nesterov);
  settings.mu = from.value("mu", settings.mu);
  return settings;
}

std::vector<NamedParameter> parameters_of(const json& steps) {
  std::vector<NamedParameter> parameters;
  for (const auto& [name, shape] : steps["shapes"].items()) parameters.push_back({name, tensor_of(steps["start"][name], shape)});
  return parameters;
}

void set_gradients(std::vector<NamedParameter>& parameters, const json& steps, size_t step, double times) {
  for (NamedParameter& parameter : parameters) {
    parameter.tensor.mutable_grad() = tensor_of(steps["gradients"][step][parameter.name], steps["shapes"][parameter.name]) * times;
  }
}

double largest_difference(const std::vector<NamedParameter>& parameters, const json& expected, const json& shapes) {
  double largest = 0;
  for (const NamedParameter& parameter : parameters) {
    at::Tensor wanted = tensor_of(expected[parameter.name], shapes[parameter.name]);
    largest = std::max(largest, (parameter.tensor - wanted).abs().max().item<double>());
  }
  return largest;
}

TEST(Optimizer, EqualsTorch) {
  json steps = golden("steps.json");
  for (const json& one : steps["cases"]) {
    SCOPED_TRACE(one["settings"].dump());
    std::vector<NamedParameter> parameters = parameters_of(steps);
    auto optimizer = Optimizer::create(settings_of(one["settings"]), parameters);
    ASSERT_TRUE(optimizer);
    size_t count = steps["lrs"].size();
    for (size_t step = 0; step < count; ++step) {
      // The scale is part of the step: gradients of a sum, times 1 / targets.
      set_gradients(parameters, steps, step, 8);
      ASSERT_TRUE((*optimizer)->step(steps["lrs"][step], 1.0 / 8));
      if (step == 0) {
        EXPECT_LT(largest_difference(parameters, one["after"][0], steps["shapes"]), 1e-6);
      }
    }

    EXPECT_LT(largest_difference(parameters, one["after"][1], steps["shapes"]), 1e-6);
    EXPECT_EQ((*optimizer)->steps(), static_cast<int64_t>(count));
  }
}

TEST(Optimizer, StateGoesOnWhereItWas) {
  json steps = golden("steps.json");
  for (const json& one : steps["cases"]) {
    SCOPED_TRACE(one["settings"].dump());
    std::vector<NamedParameter> whole = parameters_of(steps), first = parameters_of(steps);
    auto settings = settings_of(one["settings"]);
    auto through = *Optimizer::create(settings, whole);
    auto until = *Optimizer::create(settings, first);
    for (size_t step = 0; step < 6; ++step) {
      set_gradients(whole, steps, step, 1);
      ASSERT_TRUE(through->step(steps["lrs"][step], 1));
      if (step == 3) {  // another optimizer takes over
        auto fresh = *Optimizer::create(settings, first);
        ASSERT_EQ(fresh->state().size(), until->state().size());
        for (size_t i = 0; i < fresh->state().size(); ++i) {
          EXPECT_EQ(fresh->state()[i].name, until->state()[i].name);
          at::Tensor to = fresh->state()[i].tensor;
          to.copy_(until->state()[i].tensor);
        }
        fresh->set_steps(until->steps());
        until = std::move(fresh);
      }
      set_gradients(first, steps, step, 1);
      ASSERT_TRUE(until->step(steps["lrs"][step], 1));
    }
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(whole[i].tensor, first[i].tensor)) << whole[i].name;
  }
}

TEST(Optimizer, NamesItsState) {
  std::vector<NamedParameter> parameters{{"model.embed_tokens.weight", at::zeros({3, 2})}, {"model.layers.0.mlp.up_proj.weight", at::zeros({2, 2})}};
  config::OptimizerSettings settings;
  settings.kind = config::OptimizerKind::kMuon;
  auto optimizer = *Optimizer::create(settings, parameters);
  std::vector<std::string> names;
  for (const NamedParameter& state : optimizer->state()) names.push_back(state.name);
  EXPECT_EQ(names, (std::vector<std::string>{"exp_avg/model.embed_tokens.weight", "exp_avg_sq/model.embed_tokens.weight",
                                             "momentum/model.layers.0.mlp.up_proj.weight"}));
}

TEST(Optimizer, AdamWIsTheSameForAnyThreads) {
  auto after = [](int threads) {
    at::set_num_threads(threads);
    at::manual_seed(3);
    std::vector<NamedParameter> parameters{{"w", at::randn({511, 257})}};
    auto optimizer = *Optimizer::create({}, parameters);
    for (int step = 0; step < 3; ++step) {
      parameters[0].tensor.mutable_grad() = at::randn({511, 257});
      EXPECT_TRUE(optimizer->step(1e-2, 0.5));
    }
    return parameters[0].tensor;
  };
  int before = at::get_num_threads();
  at::Tensor one = after(1), three = after(3);
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, three));
}

TEST(Schedule, EqualsTorch) {
  for (const json& one : golden("schedules.json")) {
    config::SchedulerSettings settings;
    std::string kind = one["kind"];
    settings.kind = kind == "constant" ? config::SchedulerKind::kConstant
                    : kind == "linear" ? config::SchedulerKind::kLinear
                                       : config::SchedulerKind::kCosine;
    settings.warmup_steps = one["warmup_steps"];
    settings.decay_steps = one["decay_steps"];
    settings.min_lr = one["min_lr"];
    double lr = one["lr"];
    Schedule schedule(settings, lr, one["max_steps"].get<int64_t>());
    for (size_t i = 0; i < one["lrs"].size(); ++i) {
      EXPECT_NEAR(schedule.lr_at(static_cast<int64_t>(i)), one["lrs"][i].get<double>(), lr * 1e-12) << one["kind"] << " step " << i;
    }
  }
}

TEST(Schedule, Edges) {
  config::SchedulerSettings settings;
  settings.kind = config::SchedulerKind::kLinear;
  settings.warmup_steps = 0;
  settings.decay_steps = 1;
  EXPECT_DOUBLE_EQ(Schedule(settings, 1, 3).lr_at(1), 1);
  EXPECT_DOUBLE_EQ(Schedule(settings, 1, 3).lr_at(2), 1e-8);  // the last update has the least rate
  EXPECT_DOUBLE_EQ(Schedule(settings, 0, 3).lr_at(2), 0);
  settings.warmup_steps = 10;
  settings.decay_steps = 0;
  EXPECT_DOUBLE_EQ(Schedule(settings, 1, std::nullopt).lr_at(1'000'000), 1);  // endless
}

}  // namespace
}  // namespace cairn::trainer
